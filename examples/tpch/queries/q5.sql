-- Local suppliers: what they earned from customers of their own nation, in one region and year.
select n_name, sum(l_extendedprice * (1 - l_discount)) as revenue
from parquet.`{{ params.lake }}/tables/region`
join parquet.`{{ params.lake }}/tables/nation` on n_regionkey = r_regionkey
join parquet.`{{ params.lake }}/tables/supplier` on s_nationkey = n_nationkey
join parquet.`{{ params.lake }}/tables/lineitem` on l_suppkey = s_suppkey
join parquet.`{{ params.lake }}/tables/orders` on o_orderkey = l_orderkey
join parquet.`{{ params.lake }}/tables/customer` on c_custkey = o_custkey and c_nationkey = s_nationkey
where r_name = 'ASIA' and o_orderdate >= date '1994-01-01' and o_orderdate < date '1995-01-01'
group by n_name
order by revenue desc
