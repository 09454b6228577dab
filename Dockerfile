# A tidemill worker: Python, Java for Spark's drivers, and this repository. Runs as a user of its own, with a read-only
# root (docker run --read-only --tmpfs /tmp --volume ...:/var/lib/tidemill).
# The image that it is made from, by its digest: what is built tomorrow is what was tried today. A newer one, with the
# repairs that Debian and Python have made since: docker build --pull --build-arg PYTHON_IMAGE=python:3.12-slim-bookworm .
ARG PYTHON_IMAGE=python:3.12-slim-bookworm@sha256:782412e85d0f0984994c290652577d4018aff08145c85b262bb63dc0c7522254
FROM ${PYTHON_IMAGE}

RUN apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
 && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/tidemill
COPY requirements.lock pyproject.toml setup.py README.md LICENSE ./
RUN pip install --no-cache-dir --requirement requirements.lock
COPY tidemill tidemill
COPY model model
COPY activities activities
COPY kinds kinds
COPY workflows workflows
COPY worker worker
COPY api api
COPY examples examples
RUN pip install --no-cache-dir --no-deps --no-build-isolation . && python -m compileall -q /usr/local/lib/python3.12

RUN useradd --create-home --uid 10001 tidemill \
 && mkdir --mode=0700 /var/lib/tidemill /var/lib/tidemill-web && mkdir /data \
 && chown tidemill /var/lib/tidemill /var/lib/tidemill-web /data
USER tidemill
ENV TIDEMILL_HOME=/var/lib/tidemill \
    TIDEMILL_HEALTH_ADDRESS=127.0.0.1:8088 \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /var/lib/tidemill
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8088/healthz', timeout=4)"]
# On SIGTERM the worker takes no more work and lets its tasks finish (TIDEMILL_DRAIN_SECONDS, 600): give it the time.
STOPSIGNAL SIGTERM
ENTRYPOINT ["tidemill"]
CMD ["worker"]
