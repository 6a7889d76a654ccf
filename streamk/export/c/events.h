
/* --- Events ---------------------------------------------------------------------------------- */

/* An event begins with model_clear, and each of its fields is set once. What sets a field returns
   1 if the model has a column for the value; 0 if it has none, and the value counts as in training;
   or -1, and changes nothing, if the value cannot be used. A field below 0 is one that the model
   does not know. */

/* Begin an event, in which no field is there yet. */
static inline void model_clear(double *x)
{
    for (int j = 0; j < MODEL_COLUMNS; j++)
        x[j] = MODEL_BLANK;
}

/* Compare texts by their bytes. */
static inline int model_compare(const char *a, const char *b)
{
    while (*a != 0 && *a == *b) {
        a++;
        b++;
    }
    return (int)(unsigned char)*a - (int)(unsigned char)*b;
}

/* The field of that name, or -1. */
static inline int model_field(const char *name)
{
    for (int field = 0; field < MODEL_FIELDS; field++)
        if (model_compare(name, model_fields[field]) == 0)
            return field;
    return -1;
}

/* Write to all columns of a field: a value to that of its number, another to those of its texts. */
static inline void model_set_all(double *x, int field, double number, double texts)
{
    if (model_number_columns[field] >= 0)
        x[model_number_columns[field]] = number;
    for (int i = model_text_starts[field]; i < model_text_starts[field + 1]; i++)
        x[model_text_columns[i]] = texts;
}

/* Whether a text has more than 256 bytes. */
static inline int model_is_long(const char *text)
{
    int bytes = 0;
    while (text[bytes] != 0 && bytes <= 256)
        bytes++;
    return bytes > 256;
}

/* The column of a text in a field, or -1. */
static inline int model_text_column(int field, const char *text)
{
    int low = model_text_starts[field], high = model_own_ends[field];
    while (low < high) {
        const int middle = low + (high - low) / 2, order = model_compare(text, model_texts[middle]);
        if (order == 0)
            return model_text_columns[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
#ifdef MODEL_SHARED
    if (model_shared_rows[field] >= 0 &&
        (model_own_ends[field] - model_text_starts[field] >= MODEL_OWN || model_is_long(text)))
        return model_shared_columns[MODEL_SHARED * model_shared_rows[field] +
                                    (int)(model_hash(text) % MODEL_SHARED)];
#endif
    return -1;
}

/* Set a field to nothing: a null. */
static inline int model_set_missing(double *x, int field)
{
    if (field < 0)
        return 0;
    model_set_all(x, field, NAN, NAN);
    return 1;
}

/* Set a field to a number, or a boolean as 1 or 0. NaN is missing; beyond 1e150 is no use, nor is a
   number in a field of texts, which takes it as a text. */
static inline int model_set_number(double *x, int field, double value)
{
    if (value != value)
        return model_set_missing(x, field);
    if (value > 1e150 || value < -1e150 || (field >= 0 && model_of_texts[field]))
        return -1;
    if (field < 0)
        return 0;
    model_set_all(x, field, value, 0.0);
    return model_number_columns[field] >= 0;
}

/* Whether a text is one of those that stand for a missing value. */
static inline int model_is_missing(const char *text)
{
    for (int i = 0; i < (int)(sizeof model_missing / sizeof model_missing[0]); i++)
        if (model_compare(text, model_missing[i]) == 0)
            return 1;
    return 0;
}

/* The text "true" or "false", if the text is a boolean however it is written, else none. */
static inline const char *model_boolean(const char *text)
{
    for (int i = 0; i < 6; i++)
        if (model_compare(text, model_booleans[i]) == 0)
            return model_booleans[i / 3 * 3];
    return 0;
}

static inline int model_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline int model_is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Behind a word, of which `word` has the lower case, if the text begins with it, else the text. */
static inline const char *model_after(const char *text, const char *word)
{
    const char *at = text;
    for (; *word != 0; at++, word++)
        if (*at != *word && (*at < 'A' || *at > 'Z' || *at + ('a' - 'A') != *word))
            return text;
    return at;
}

/* Behind the digits, with commas between thousands, at which a text begins. */
static inline const char *model_after_digits(const char *text)
{
    const char *at = text, *end;
    while (model_is_digit(*at))
        at++;
    if (*at != ',' || at == text || at - text > 3 || *text == '0')
        return at;
    for (end = at; *end == ','; end += 4)
        if (!model_is_digit(end[1]) || !model_is_digit(end[2]) || !model_is_digit(end[3]))
            return at;
    return model_is_digit(*end) ? at : end;
}

/* Behind an exponent, if the text begins with one, else the text. */
static inline const char *model_after_exponent(const char *text)
{
    const char *at = text, *digits;
    if (*at != 'e' && *at != 'E')
        return text;
    at++;
    digits = at += *at == '+' || *at == '-';
    while (model_is_digit(*at))
        at++;
    return at > digits ? at : text;
}

/* Whether a text is a time of day with its seconds, 12:30:00 say. */
static inline int model_is_clock(const char *text)
{
    const char *like = "29:59:59";
    const char *at = text;
    for (; *like != 0; like++, at++)
        if (*like == ':' ? *at != ':' : !model_is_digit(*at) || *at > *like)
            return 0;
    if (text[0] == '2' && text[1] > '3')
        return 0;
    if (*at == '.' && model_is_digit(at[1]))
        for (at++; model_is_digit(*at) && at - text < 18; at++)
            ;
    return *at == 0;
}

/* Whether the number of these digits, commas and a point, times a power of ten, is past 1e150. */
static inline int model_is_past(const char *begin, const char *end, long power)
{
    int point = 0;
    long before = 0;
    const char *first = 0;
    for (const char *at = begin; at < end; at++) {
        point |= *at == '.';
        if (!model_is_digit(*at))
            continue;
        if (first == 0 && *at != '0')
            first = at;
        if (first != 0)
            before += !point;
        else
            before -= point;
    }
    if (first == 0 || before + power != 151)
        return first != 0 && before + power > 151;
    if (*first > '1')
        return 1;
    for (first++; first < end; first++)
        if (model_is_digit(*first) && *first != '0')
            return 1;
    return 0;
}

/* Whether digits, with commas, are a whole number from 2**53 on, of which a double loses some. */
static inline int model_is_id(const char *begin, const char *end)
{
    const char *limit = "9007199254740992";
    int count = 0, order = 0;
    for (const char *at = begin; at < end; at++) {
        if (!model_is_digit(*at) || (count == 0 && *at == '0'))
            continue;
        if (count < 16 && order == 0)
            order = *at - limit[count];
        count++;
    }
    return count > 16 || (count == 16 && order >= 0);
}

/* 1 if a text reads as a number, 2 if as one that is past 1e150 or infinite, 3 if as NaN, else 0:
   decimals, an exponent (of no number with commas), inf, nan, a boolean, a time of day. */
static inline int model_reads_as_number(const char *text)
{
    const char *at = text, *begin, *end;
    if (model_boolean(text) != 0 || model_is_clock(text))
        return 1;
    while (model_is_space(*at))
        at++;
    begin = at += *at == '+' || *at == '-';
    at = model_after(at, "nan");
    if (at > begin) {
        while (model_is_space(*at))
            at++;
        return *at == 0 ? 3 : 0;
    }
    at = model_after(at, "infinity");
    at = at > begin ? at : model_after(at, "inf");
    int past = at > begin;
    if (!past) {
        int digits, commas = 0, whole = 1;
        long power = 0;
        at = model_after_digits(at);
        digits = at > begin;
        for (end = begin; end < at; end++)
            commas |= *end == ',';
        if (*at == '.') {
            at++;
            whole = 0;
            for (; model_is_digit(*at); at++)
                digits = 1;
        }
        if (!digits)
            return 0;
        end = at;
        at = commas ? at : model_after_exponent(at);
        if (at > end) {
            const char *from = end + 1 + (end[1] == '+' || end[1] == '-');
            for (; from < at; from++)
                power = power < 100000 ? 10 * power + (*from - '0') : power;
            power = end[1] == '-' ? -power : power;
        } else if (whole && model_is_id(begin, end)) {
            return 0;
        }
        past = model_is_past(begin, end, power);
    }
    while (model_is_space(*at))
        at++;
    return *at != 0 ? 0 : 1 + past;
}

/* Whether a text begins like a date. Only where texts share columns does that matter: elsewhere a
   time has no column, as another unknown text. */
static inline int model_may_be_time(int field, const char *text)
{
#ifdef MODEL_SHARED
    const char *like = "0000-00-00";
    if (field < 0 || model_shared_rows[field] < 0)
        return 0;
    for (; *like != 0; like++, text++)
        if (*like == '0' ? !model_is_digit(*text) : *text != *like)
            return 0;
    return 1;
#else
    (void)field;
    (void)text;
    return 0;
#endif
}

/* Set a field to a text, in UTF-8. One such as "NA" or "" is missing. One that reads as a number is no
   use, and belongs to model_set_number; nor is "Nan" where a field has numbers, or one that begins
   like a date where texts share columns. In a field of texts each of these is a text, and so is, where
   a field has texts, one that reads as a number past 1e150. */
static inline int model_set_text(double *x, int field, const char *text)
{
    int column;
    if (model_is_missing(text))
        return model_set_missing(x, field);
    if (field >= 0 && model_of_texts[field]) {
        text = model_boolean(text) != 0 ? model_boolean(text) : text;
    } else {
        const int reads = model_reads_as_number(text);
        const int numbers = field >= 0 && model_number_columns[field] >= 0 &&
                            model_text_starts[field] == model_text_starts[field + 1];
        if (reads == 1 || (reads == 2 && numbers) || model_may_be_time(field, text) ||
            (reads == 3 && field >= 0 && model_number_columns[field] >= 0))
            return -1;
    }
    if (field < 0)
        return 0;
    model_set_all(x, field, NAN, 0.0);
    column = model_text_column(field, text);
    if (column >= 0)
        x[column] = 1.0;
    return column >= 0;
}

/* Set a field to a list of texts, each of which counts as often as it is there; numbers as texts.
   Return 1 if the model has a column for each of them. */
static inline int model_set_texts(double *x, int field, const char *const *texts, int count)
{
    int known = field >= 0;
    if (field < 0)
        return 0;
    model_set_all(x, field, NAN, 0.0);
    for (int i = 0; i < count; i++) {
        const char *word = model_boolean(texts[i]);
        int column;
        if (model_is_missing(texts[i]))
            continue;
        column = model_text_column(field, word != 0 ? word : texts[i]);
        if (column >= 0)
            x[column] += 1.0;
        known &= column >= 0;
    }
    return known;
}
