"""stub"""
import sys, time
from pathlib import Path
sys.path[:0] = [str(Path(__file__).parents[1])]
from dst.installation import draw
from dst.simulation import simulate
a, b = int(sys.argv[1]), int(sys.argv[2])
import collections, traceback
counts = collections.Counter()
t0 = time.time()
for seed in range(a, b):
    t = time.time()
    try:
        r = simulate(draw(seed), trace="--trace" in sys.argv)
    except Exception as e:
        traceback.print_exc()
        print("SEED", seed, "crashed", repr(e)[:300])
        if "-x" in sys.argv: raise
        continue
    if "--trace" in sys.argv:
        print("\n".join(r.trace))
    counts += r.counts
    print(seed, f"{time.time()-t:.2f}s", f"{r.days:.1f}d", r.counts["workflow tasks"], "tasks", r.counts["replays"], "replays", [str(v)[:600] for v in r.violations[:3]])
print(f"{(b-a)/(time.time()-t0)*3600:.0f} seeds/h")
print(counts)
