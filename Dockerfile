# One image for every service of docker-compose.yml: Flower, torch and what else fedgame needs.
# Flower ships the app itself to the nodes, run by run.
FROM python:3.11-slim-bookworm

# Where torch comes from: its CPU builds. Empty: PyPI, whose builds carry CUDA and are 3 GB larger.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
# The versions to install; the same seed gives the same bits for one version of torch only.
ARG TORCH="torch>=2.9,<3 torchvision>=0.24,<1"

ENV VIRTUAL_ENV=/opt/fedgame \
    PATH=/opt/fedgame/bin:/usr/local/bin:/usr/bin:/bin \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PYTHONUNBUFFERED=1 \
    FLWR_HOME=/tmp/flower \
    FLWR_TELEMETRY_ENABLED=0 \
    FLWR_DISABLE_UPDATE_CHECK=1 \
    FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1 \
    FLWR_SUPEREXEC_TASK_POLL_INTERVAL=0.1 \
    OMP_NUM_THREADS=1

RUN python3 -m venv "$VIRTUAL_ENV"
RUN echo "$TORCH" | tr ' ' '\n' > /tmp/torch.txt \
    && pip install ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} -r /tmp/torch.txt

WORKDIR /opt/src
COPY pyproject.toml ./
RUN python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies'], sep='\n')" \
    > /tmp/requirements.txt \
    && pip install -r /tmp/requirements.txt -r /tmp/torch.txt
COPY README.md LICENSE ./
COPY fedgame fedgame
RUN pip install --no-deps .

COPY docker/start docker/healthcheck /usr/local/bin/
# volumes take the owner of the folder that they cover
RUN mkdir /state /out /data /auth && chown 10001:10001 /state /out /data /auth
USER 10001:10001
WORKDIR /tmp
ENTRYPOINT ["start"]
