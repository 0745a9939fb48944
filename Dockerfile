# The image of every process of a job: docker build --tag monolith .
# Your model goes into an image of your own: FROM monolith, COPY ranking.py /app/
FROM python:3.11-slim AS build
RUN apt-get update && apt-get install --yes --no-install-recommends g++
WORKDIR /source
RUN python -m venv /opt/monolith
ENV PATH=/opt/monolith/bin:$PATH
COPY constraints.txt ./
# Before the sources: a change of them does not fetch it again.
RUN pip install --no-cache-dir -c constraints.txt torch
COPY pyproject.toml CMakeLists.txt README.md LICENSE ./
COPY csrc csrc
COPY monolith monolith
RUN pip install --no-cache-dir -c constraints.txt '.[serving,columnar,kafka,tensorboard,zookeeper,consul]'

FROM python:3.11-slim
COPY --from=build /opt/monolith /opt/monolith
ENV PATH=/opt/monolith/bin:$PATH
RUN useradd --uid 10001 --create-home monolith
USER 10001
WORKDIR /app
ENTRYPOINT ["monolith"]
