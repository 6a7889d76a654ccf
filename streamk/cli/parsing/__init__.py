"""Options of every command: their texts, types, groups and mistakes."""
