"""The rules by which two schemas are compared, keyword by keyword, and what carries them out."""
