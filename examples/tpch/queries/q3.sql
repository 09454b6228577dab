-- Shipping priority: the ten open orders of a market that are worth most.
select
    l_orderkey,
    sum(l_extendedprice * (1 - l_discount)) as revenue,
    o_orderdate,
    o_shippriority
from parquet.`{{ params.lake }}/tables/customer`
join parquet.`{{ params.lake }}/tables/orders` on c_custkey = o_custkey
join parquet.`{{ params.lake }}/tables/lineitem` on l_orderkey = o_orderkey
where c_mktsegment = 'BUILDING' and o_orderdate < date '1995-03-15' and l_shipdate > date '1995-03-15'
group by l_orderkey, o_orderdate, o_shippriority
order by revenue desc, o_orderdate
limit 10
