# A server of the bundled model, or of a folder mounted at /model, built from the wheel.
#
#   docker build -t archer .
#   docker run --rm -p 127.0.0.1:8000:8000 -v ./keys:/keys:ro archer --api-key-file /keys
FROM python:3.11-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim
ARG EXTRAS=serve
# KubeRay asks a Ray worker whether it is ready by running wget in it, which this image does not have.
# A pinned version would be gone from the archive with the next one.
# hadolint ignore=DL3008
RUN case ",${EXTRAS}," in *,ray,*) apt-get update \
    && apt-get install --yes --no-install-recommends wget \
    && rm -rf /var/lib/apt/lists/* ;; esac
COPY constraints.txt /tmp/constraints.txt
COPY --from=build /wheels /wheels
RUN wheel="$(echo /wheels/*.whl)" \
    && pip install --no-cache-dir -c /tmp/constraints.txt "${wheel}[${EXTRAS}]" \
    && rm -r /wheels /tmp/constraints.txt \
    && useradd --uid 10001 --create-home archer
USER 10001
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --start-period=5m CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/ready')"]
ENTRYPOINT ["archer", "serve", "--host", "0.0.0.0", "--port", "8000"]
