FROM python:3.13-slim AS dependencies
# Dependencies before code. TORCH_INDEX may be empty; without it, Linux's plain torch brings CUDA.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ENV PIP_PYTHON=/venv/bin/python PIP_NO_CACHE_DIR=1 PIP_NO_COMPILE=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /app
RUN python -m venv --without-pip /venv
COPY pyproject.toml constraints.txt ./
RUN python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb")); q = p["project"]; \
    extras = [r for e in ("audit", "page") for r in q["optional-dependencies"][e] if not r.startswith(q["name"])]; \
    print(*p["build-system"]["requires"], *q["dependencies"], *extras, sep="\n")' > wanted.txt \
    && { test -z "$TORCH_INDEX" || python -m pip install -qq --no-deps -c constraints.txt --index-url "$TORCH_INDEX" torch; } \
    && python -m pip install -qq -c constraints.txt -r wanted.txt

# What no page and no audit loads: torch's own tests, headers and tools, marimo's language server, tests of all others.
# Byte code is made once for what stays; a few files of others are for later Pythons, and don't compile.
FROM dependencies AS slim
RUN cd /venv/lib/python3.*/site-packages \
    && rm -rf torch/bin/*[Tt]est* torch/bin/protoc* torch/include torch/test torch/lib/*test*.so marimo/_lsp \
    && find . -type d -name tests -prune -exec rm -rf {} + \
    && { /venv/bin/python -m compileall -qq --invalidation-mode unchecked-hash . || true; }

# The code beside it. What was taken away too much shows here: the command and every chapter are tried.
FROM slim AS code
COPY . .
RUN python -m pip install -qq --no-deps --no-build-isolation --prefix /installed -e . && cp -r /installed/. /venv \
    && /venv/bin/python -m compileall -q --invalidation-mode unchecked-hash gdpo_core gdpo_audit views serve.py \
    && /venv/bin/gdpo audit data/samples/trl_gdpo >/dev/null \
    && /venv/bin/python -c "import serve, app; app.app.run()" >/dev/null

# The file system may be read-only (then mount a tmpfs on /tmp), so byte code was made before and home is /tmp.
FROM python:3.13-slim
LABEL org.opencontainers.image.title="Reward Policy Intuition" org.opencontainers.image.licenses="MIT" \
    org.opencontainers.image.description="See, trust and use what normalising rewards one by one (GDPO) changes against GRPO"
RUN useradd --uid 1000 --home-dir /tmp --no-create-home app
COPY --from=slim /venv /venv
COPY --from=code /installed /venv
COPY --from=code /app /app
WORKDIR /app
ENV HOME=/tmp PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 1000

EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s CMD ["python", "-c", "import http.client as h, sys; c = h.HTTPConnection('127.0.0.1', 7860, timeout=4); c.request('GET', '/health'); sys.exit(c.getresponse().status != 200)"]
CMD ["python", "serve.py", "--host", "0.0.0.0", "--port", "7860"]
