"""Loads the generated tables to Parquet, with the types that the benchmark gives them."""

import sys

from pyspark.sql import SparkSession

MONEY = "decimal(15, 2)"
TABLES = {
    "region": "r_regionkey long, r_name string, r_comment string",
    "nation": "n_nationkey long, n_name string, n_regionkey long, n_comment string",
    "customer": f"c_custkey long, c_name string, c_address string, c_nationkey long, c_phone string, "
    f"c_acctbal {MONEY}, c_mktsegment string, c_comment string",
    "supplier": f"s_suppkey long, s_name string, s_address string, s_nationkey long, s_phone string, "
    f"s_acctbal {MONEY}, s_comment string",
    "part": f"p_partkey long, p_name string, p_mfgr string, p_brand string, p_type string, p_size int, "
    f"p_container string, p_retailprice {MONEY}, p_comment string",
    "orders": f"o_orderkey long, o_custkey long, o_orderstatus string, o_totalprice {MONEY}, o_orderdate date, "
    "o_orderpriority string, o_clerk string, o_shippriority int, o_comment string",
    "lineitem": f"l_orderkey long, l_partkey long, l_suppkey long, l_linenumber int, l_quantity {MONEY}, "
    f"l_extendedprice {MONEY}, l_discount {MONEY}, l_tax {MONEY}, l_returnflag string, l_linestatus string, "
    "l_shipdate date, l_commitdate date, l_receiptdate date, l_shipinstruct string, l_shipmode string, "
    "l_comment string",
}

spark = SparkSession.builder.getOrCreate()
raw, output = sys.argv[1], spark.conf.get("spark.tidemill.output")
for done, (table, schema) in enumerate(TABLES.items()):
    spark.conf.set("spark.tidemill.progress", str(done / len(TABLES)))
    rows = spark.read.csv(f"{raw}/{table}.csv", header=True, schema=schema, mode="FAILFAST")
    rows.write.mode("overwrite").parquet(f"{output}/{table}")
spark.stop()
