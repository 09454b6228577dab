-- Two statements: a view, and what is asked of it; the run's date is a template.
create or replace temporary view counted as select id from range(3);
select count(*) as n, '{{ ds }}' as day from counted;
