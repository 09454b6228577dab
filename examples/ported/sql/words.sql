SELECT word, count(*) AS n
FROM parquet.`{{ params.folder }}/{{ ds }}`
GROUP BY word
ORDER BY word;
