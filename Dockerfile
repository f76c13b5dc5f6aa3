# The daemon in a container: HTTP at port 3030 of the host's loopback, the memory in the volume /memory, no root.
#
#     docker build -t infinite-memory .
#     docker run --network host -v memory:/memory infinite-memory
#
# Why the host's network: the daemon listens on loopback alone, in a container too, so that no network ever reaches it.
# tests/end_to_end/test_container.py runs these steps in a Debian root, for it knows RUN, COPY, ENV, USER and WORKDIR.
FROM debian:bookworm-slim

# libcurl and OpenSSL are what the embedded MongoDB (x86-64) is linked with.
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates libcurl4 libssl3 python3 python3-venv tini \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 10001 --user-group --create-home memory && install -d -o memory -g memory -m 0700 /memory

WORKDIR /build
COPY setup.cfg pyproject.toml README.md LICENSE requirements.lock ./
COPY infinite_memory ./infinite_memory
RUN python3 -m venv /opt/infinite-memory \
    && /opt/infinite-memory/bin/pip install --no-cache-dir --no-compile --no-deps --require-hashes -r requirements.lock \
    && /opt/infinite-memory/bin/pip install --no-cache-dir --no-deps --no-build-isolation --no-index . \
    && { chmod -f a+x /opt/infinite-memory/lib/python3*/site-packages/fiftyone/db/bin/mongod || true; }

USER memory
WORKDIR /home/memory
ENV PATH=/opt/infinite-memory/bin:/usr/bin:/bin INFINITE_MEMORY_HOME=/memory
ENV INFINITE_MEMORY_HTTP__PORT=3030 INFINITE_MEMORY_DAEMON__IDLE_EXIT_S=0
# The model is part of the image; without network at build time the daemon fetches it at its first start.
RUN infinite-memory setup --quiet

VOLUME /memory
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s CMD ["python3", "-c", "import os, urllib.request; urllib.request.urlopen(f'http://127.0.0.1:{os.environ[\"INFINITE_MEMORY_HTTP__PORT\"]}/healthz', timeout=4)"]
ENTRYPOINT ["tini", "--", "infinite-memory"]
CMD ["daemon", "run"]
