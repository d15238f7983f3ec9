# The workbench for a team: see docs/how-to/serve-a-team.md.
#   docker build -t netweave .
#   docker run -p 127.0.0.1:8642:8642 -v netweave:/data netweave
# Python packages are installed from requirements/ with their hashes. How to pin the base images by digest, which
# is the builder's choice: docs/how-to/serve-a-team.md.

ARG NODE_IMAGE=node:20-slim
ARG PYTHON_IMAGE=python:3.12-slim

FROM ${NODE_IMAGE} AS frontend
WORKDIR /netweave
COPY frontend frontend
COPY tools/frontend tools/frontend
RUN mkdir -p src/netweave/viewer && tools/frontend

FROM ${PYTHON_IMAGE} AS wheel
WORKDIR /netweave
COPY requirements/build.txt requirements/build.txt
RUN pip install --no-cache-dir --require-hashes --requirement requirements/build.txt
COPY . .
COPY --from=frontend /netweave/src/netweave/viewer/static src/netweave/viewer/static
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /wheels .

FROM ${PYTHON_IMAGE}
# bubblewrap and setpriv guard files that are code; they are used only with `code = true`
RUN apt-get update && apt-get install -y --no-install-recommends bubblewrap && rm -rf /var/lib/apt/lists/*
COPY requirements/workbench.txt /requirements/workbench.txt
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir --require-hashes --requirement /requirements/workbench.txt \
 && pip install --no-cache-dir --no-deps /wheels/netweave-*.whl && rm -r /wheels /requirements \
 && useradd --system --uid 8642 --home-dir /data netweave && install -d -o netweave /data
USER netweave
VOLUME /data
EXPOSE 8642
ENV PYTHONUNBUFFERED=1
HEALTHCHECK CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8642/help/', timeout=5)"]
CMD ["netweave", "serve", "--data", "/data", "--host", "0.0.0.0"]
