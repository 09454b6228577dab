-- Promotion: its share in a month's revenue, in percent.
select
    100 * sum(case when p_type like 'PROMO%' then l_extendedprice * (1 - l_discount) else 0 end)
        / sum(l_extendedprice * (1 - l_discount)) as promo_revenue
from parquet.`{{ params.lake }}/tables/lineitem`
join parquet.`{{ params.lake }}/tables/part` on l_partkey = p_partkey
where l_shipdate >= date '1995-09-01' and l_shipdate < date '1995-10-01'
