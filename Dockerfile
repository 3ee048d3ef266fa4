FROM python:3.11-slim

ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore MALLOC_ARENA_MAX=2
WORKDIR /app

# Dependencies before code. TORCH_INDEX may be empty; without it, Linux's plain torch brings CUDA.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY pyproject.toml constraints.txt ./
COPY scripts/install.py scripts/
RUN python scripts/install.py page

# The file system may be read-only (then mount a tmpfs on /tmp), so byte code is made here and home is /tmp.
COPY . .
RUN python -m pip install -qq --no-deps --no-build-isolation -e . \
    && python -m compileall -q gdpo_core views serving marimo_private.py \
    && useradd --uid 1000 --home-dir /tmp --no-create-home app
ENV HOME=/tmp
USER 1000

EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s CMD ["python", "-c", "import http.client as h, sys; c = h.HTTPConnection('127.0.0.1', 7860, timeout=4); c.request('GET', '/health'); sys.exit(c.getresponse().status != 200)"]
CMD ["python", "-m", "marimo", "run", "app.py", "--host", "0.0.0.0", "--port", "7860", "--headless", "--no-sandbox"]
