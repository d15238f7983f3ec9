# The workbench for a team: see docs/how-to/serve-a-team.md.
#   docker build -t netweave .
#   docker run -p 127.0.0.1:8642:8642 -v netweave:/data netweave

FROM node:20-slim AS frontend
WORKDIR /netweave
COPY frontend frontend
COPY tools/frontend tools/frontend
RUN mkdir -p src/netweave/viewer && tools/frontend

FROM python:3.12-slim AS wheel
WORKDIR /netweave
COPY . .
COPY --from=frontend /netweave/src/netweave/viewer/static src/netweave/viewer/static
RUN pip wheel --no-deps --wheel-dir /wheels .

FROM python:3.12-slim
# bubblewrap and setpriv guard files that are code; they are used only with `code = true`
RUN apt-get update && apt-get install -y --no-install-recommends bubblewrap && rm -rf /var/lib/apt/lists/*
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir "$(echo /wheels/netweave-*.whl)[web-team,hdf5]" && rm -r /wheels \
 && useradd --system --uid 8642 --home-dir /data netweave && install -d -o netweave /data
USER netweave
VOLUME /data
EXPOSE 8642
ENV PYTHONUNBUFFERED=1
HEALTHCHECK CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8642/help/', timeout=5)"]
CMD ["netweave", "serve", "--data", "/data", "--host", "0.0.0.0"]
