
/* exp(x) of x <= 0, within 2 units in the last place; 0 where it is below normal. */
static inline double model_double_exponential(double x)
{
    const double big = 6755399441055744.0, sum = x * 1.4426950408889634 + big, n = sum - big;
    const double r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
    double g = 2.5100472505694996e-8 * r + 2.76202015910315488e-7, power;
    unsigned long long bits;
    g = ((g * r + 2.75572682769056962e-6) * r + 0.0000248015210578682052) * r;
    g = ((g + 0.00019841269863171556) * r + 0.00138888889173670806) * r;
    g = ((g + 0.0083333333333300382) * r + 0.0416666666666238205) * r;
    g = (g + 0.166666666666666675) * r + 0.5;
    memcpy(&bits, &sum, sizeof bits);
    bits = (bits << 52) + 0x3FF0000000000000u;
    memcpy(&power, &bits, sizeof power);
    return x < -708.3964185322641 ? 0.0 : ((g * r) * r + r + 1.0) * power;
}
