-- Shipping modes: whether cheap ones made urgent orders late.
select
    l_shipmode,
    count_if(o_orderpriority in ('1-URGENT', '2-HIGH')) as high_line_count,
    count_if(o_orderpriority not in ('1-URGENT', '2-HIGH')) as low_line_count
from parquet.`{{ params.lake }}/tables/orders`
join parquet.`{{ params.lake }}/tables/lineitem` on o_orderkey = l_orderkey
where l_shipmode in ('MAIL', 'SHIP') and l_commitdate < l_receiptdate and l_shipdate < l_commitdate
  and l_receiptdate >= date '1994-01-01' and l_receiptdate < date '1995-01-01'
group by l_shipmode
order by l_shipmode
