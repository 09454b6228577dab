wc -l < "$FILE"
