# The program sluice, which by default serves the API with its data in /data. It listens on every
# address, because the container decides who can reach it. So it requires API keys.
FROM golang:1.26.11 AS build
ARG GOPROXY
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN make importer && CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o /out/sluice ./cmd/sluice && mkdir /out/data

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/sluice /sluice
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532:65532
ENV AUTH_MODE=api-key DATA_DIR=/data
VOLUME /data
EXPOSE 3000
ENTRYPOINT ["/sluice"]
CMD ["serve", "--addr", ":3000"]
