# The daemon with its command line, on a small Debian. State lives in /var/lib/wilco.
FROM rust:1-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --profile dist --locked --bin wilcod --bin wilco --features wilcod/tls,wilcod/jws

FROM debian:bookworm-slim
# git and ssh: what the deploy adapter reaches git remotes with.
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates git openssh-client && rm -rf /var/lib/apt/lists/*
RUN useradd --system --create-home --home-dir /var/lib/wilco wilco
COPY --from=build /src/target/dist/wilcod /src/target/dist/wilco /usr/local/bin/
USER wilco
VOLUME /var/lib/wilco
# The daemon listens on loopback only until it can speak TLS, so callers share its network namespace.
CMD ["wilcod", "serve", "--data", "/var/lib/wilco", "--listen", "127.0.0.1:8470"]
