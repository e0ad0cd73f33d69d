# The service on a CPU: docker build -t icdc --build-arg TORCH_INDEX=… . && docker run -p 8000:8000 -e ICDC_TOKEN=… -v icdc:/data icdc
FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
# PyTorch keeps builds without CUDA in an index of their own: give its address to keep the image small
ARG TORCH_INDEX
RUN python -m venv /opt/icdc \
 && /opt/icdc/bin/pip install --no-cache-dir --disable-pip-version-check -c constraints.txt ${TORCH_INDEX:+--index-url "${TORCH_INDEX}"} torch \
 && /opt/icdc/bin/pip install --no-cache-dir --disable-pip-version-check -c constraints.txt '.[serve,excel]' \
 && find /opt/icdc -name tests -type d -prune -exec rm -rf {} +

FROM python:3.12-slim
RUN useradd --system --uid 10001 --home-dir /data --create-home icdc
COPY --from=build /opt/icdc /opt/icdc
ENV PATH=/opt/icdc/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    NUMBA_CACHE_DIR=/data/compiled
USER 10001
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=2)"]
STOPSIGNAL SIGTERM
# others can reach it, so it insists on ICDC_TOKEN
CMD ["icdc", "serve", "--host", "0.0.0.0", "--port", "8000", "--data", "/data"]
