# A tidemill worker: Python, Java for Spark's drivers, and this repository.
FROM python:3.12-slim-bookworm

RUN apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
 && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/tidemill
COPY requirements.lock pyproject.toml README.md LICENSE ./
RUN pip install --no-cache-dir --requirement requirements.lock
COPY tidemill tidemill
COPY model model
COPY activities activities
COPY workflows workflows
COPY worker worker
COPY examples examples
RUN pip install --no-cache-dir --no-deps --no-build-isolation .

RUN useradd --create-home tidemill && mkdir /var/lib/tidemill /data && chown tidemill /var/lib/tidemill /data
USER tidemill
ENV TIDEMILL_HOME=/var/lib/tidemill
WORKDIR /var/lib/tidemill
# The worker ends its tasks in order on SIGTERM: give it the time (stop_grace_period).
ENTRYPOINT ["tidemill"]
CMD ["worker"]
