# The daemon with its command line, on a small Debian. State lives in /var/lib/wilco.
FROM rust:1-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --bin wilcod --bin wilco

FROM debian:bookworm-slim
RUN useradd --system --create-home --home-dir /var/lib/wilco wilco
COPY --from=build /src/target/release/wilcod /src/target/release/wilco /usr/local/bin/
USER wilco
VOLUME /var/lib/wilco
# The daemon listens on loopback only until it can speak TLS, so callers share its network namespace.
CMD ["wilcod", "serve", "--data", "/var/lib/wilco", "--listen", "127.0.0.1:8470"]
