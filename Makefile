# Versions of the tools written in Go. The versions of all other tools are in the folder "tools".
GOLANGCI_LINT := v2.15.0
VALE          := v3.21.0
GOTESTSUM     := gotest.tools/gotestsum@v1.13.0
GOVULNCHECK   := golang.org/x/vuln/cmd/govulncheck@v1.9.0
VERSITYGW     := v1.8.0
OAPI_CODEGEN  := v2.8.2
BENCHSTAT     := golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da

# Tests run third-party programs from PyPI and npm. tools/NAME pins each of their files by hash.
# Installing them runs none of their code: pip takes only wheels, and npm ignores the scripts of
# packages.
pip = python3 -m venv $1 && $1/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: -r tools/$2/requirements.txt
npm = mkdir -p $1 && cp tools/$2/package*.json $1 && cd $1 && npm ci --ignore-scripts --no-audit --no-fund --loglevel error
# Name of a file that exists if .cache/NAME contains what tools/NAME specifies.
ready = .cache/$1/ready-$(firstword $(shell cat tools/$1/* 2>/dev/null | cksum))

PIP_READY := $(foreach name,checkov connectors requests rumdl sam schemathesis uv,$(call ready,$(name)))
NPM_READY := $(foreach name,axe-core p-retry rate-limiter-flexible typescript-client,$(call ready,$(name)))
RUMDL_READY := $(call ready,rumdl)
SAM_READY := $(call ready,sam)
# SAM needs a region to validate the template. It runs make, which must not inherit the flags
# of this make.
SAM := AWS_DEFAULT_REGION=us-east-1 SAM_CLI_TELEMETRY=0 MAKEFLAGS= MAKELEVEL= .cache/sam/bin/sam

# Maximum size of a function's zip file, in bytes. The dashboard's also contains the importer.
MOST_ZIPPED   := 4700000
MOST_IMPORTER := 1900000

# Prints what is skipped, and fails if CI is set.
without = { printf '\n*** NOT DONE: %s\n\n' "$(1)" >&2; test -z "$$CI"; }

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run importer test test-fast compile costs try-template check checkov lint prose markdown template dynamodb-local versitygw schemathesis openapi-tools connectors connector-tools python-client blocking-client typescript-client typescript-types npm-package axe requests p-retry rate-limiter-flexible lock screenshots sam bench bench-compare mixed fetch clean vulnerabilities sbom

help:
	@awk -F ':.*## ' '/^[a-z.-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' Makefile

# The server does not wait for the importer, which the dashboard has once it is built. With job
# control (set -m), Ctrl-C reaches only the server, so make does not report an error.
run: ## serve the API on this machine
	@echo "Compiling bin/sluice, which takes minutes the first time"
	@go build -o bin/sluice ./cmd/sluice
	@$(MAKE) --no-print-directory importer & [ ! -t 0 ] || set -m; bin/sluice serve --importer $(BUILT)

# The importer is embedded in the program and in the dashboard's function. Browsers unpack it, so
# that it fits into a Lambda response. Without -buildvcs=false, each commit would be a new version.
BUILT := pkg/dashboard/built
importer: ## build the importer of the dashboard (WebAssembly)
	@GOOS=js GOARCH=wasm go build -buildvcs=false -trimpath -ldflags "-s -w" -o bin/importer.wasm ./pkg/dashboard/importer
	@cp "$$(go env GOROOT)/lib/wasm/wasm_exec.js" bin
	@gzip -9 -n -c bin/importer.wasm > bin/importer.wasm.gz
	@size=$$(wc -c < bin/importer.wasm.gz); [ "$$size" -le $(MOST_IMPORTER) ] || { echo "the importer has $$size bytes, more than $(MOST_IMPORTER)"; exit 1; }
	@for f in wasm_exec.js importer.wasm.gz; do cmp -s bin/$$f $(BUILT)/$$f || mv bin/$$f $(BUILT); done

# Lists the packages whose tests do not start an engine, a browser or another process.
FAST := go list -f '{{$$p := .ImportPath}}{{range .TestImports}}{{$$p}} {{.}}{{"\n"}}{{end}}{{range .XTestImports}}{{$$p}} {{.}}{{"\n"}}{{end}}' ./... | \
	awk '{ seen[$$1] } $$2 ~ /internal\/test\/(browsertest|child|dynamolocal|s3local)$$/ { slow[$$1] } END { for (p in seen) if (p && !(p in slow)) print p }'

test-fast: ## run the Go tests that need no engine, browser or other process
	@go test -short $$($(FAST))

# If a tool cannot be installed, prints what is skipped, and fails if CI is set. The test runner
# is the last command, so its counts are the last line. Tests that use an engine mostly wait for it,
# so -parallel 4 runs four tests of a package at a time. With more packages than processors at a time,
# DynamoDB Local did not respond in time. The packages of LONG run first, so that no long one is left
# alone at the end. Vet is off, because lint runs it.
LONG := $(addprefix ./,cmd/sluice pkg/dynamo functions clients connectors pkg/importfile pkg/httpapi internal/test/repository)
test: ## run everything that must pass: check, template and the Go tests
	@$(MAKE) --no-print-directory -j check fetch importer compile costs try-template
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
		$(call without,the tests of the dashboard; they need Chromium)
	@java -version >/dev/null 2>&1 || \
		$(call without,the tests that use DynamoDB Local; they need Java 17)
	@[ -n "$(RACE)" ] || $(call without,the search for data races; it needs a C compiler)
	@go run $(GOTESTSUM) --format pkgname --raw-command -- \
		go test -json -vet=off -ldflags "-s -w" $(RACE) -shuffle=on -count=1 -timeout 30m \
		-p $$(getconf _NPROCESSORS_ONLN) -parallel 4 $(LONG) ./...

# Fills the build cache. It does not link the tests, because Go does not cache the result.
# The test run reports compile errors.
compile: importer
	@go list -export -test -deps $(RACE) ./... >/dev/null || true

# sam build builds the importer too, so it starts after the importer.
try-template: fetch-sam importer
	@[ ! -e $(SAM_READY) ] || $(MAKE) --no-print-directory template

# These tests are not built with the race detector, which changes what is allocated.
costs: importer
	go test -vet=off -ldflags "-s -w" -count=1 -run CostsMuch ./pkg/httpapi ./functions/internal/bootstrap

RACE = $(shell [ "$$(go env CGO_ENABLED)" != 1 ] || ! command -v "$$(go env CC | cut -d' ' -f1)" >/dev/null || echo -race)

# For each tool, what is skipped without it, and what its installation needs.
LOST_sam            := the checks of template.yaml; they need python3 with venv and its package index
LOST_dynamodb-local := DynamoDB Local and the tests that use it; it needs Maven and Maven Central
LOST_versitygw      := Versity S3 Gateway and the tests that use it; it needs the Go proxy
LOST_schemathesis   := Schemathesis and its test; it needs python3 with venv and its package index
LOST_python-client  := the test of the Python client; it needs python3 with venv and its package index
LOST_typescript-client := the tests of the TypeScript client; it needs Node.js and npm with its registry
LOST_openapi-tools  := the client generators and linters for openapi.yaml and their tests; they need the Go proxy, python3 with venv and npm with its registry
LOST_connector-tools := the test of the connectors; it needs python3 with venv and its package index
LOST_axe            := axe-core and the tests of the dashboard; it needs npm and its registry

fetch: $(patsubst LOST_%,fetch-%,$(filter LOST_%,$(.VARIABLES)))

fetch-%:
	@$(MAKE) --no-print-directory $* || $(call without,$(LOST_$*))

check: lint vulnerabilities ## run lint, look for vulnerabilities, and check that go.mod and go.sum are tidy
	go mod tidy -diff
	cd bench && go mod tidy -diff
	cd bench/pocketbase && go mod tidy -diff
	cd bench/postgres && go mod tidy -diff

# Reports known vulnerabilities in code that Sluice calls. No other check needs the database's
# host, so make does not fail if that host cannot be reached.
vulnerabilities: ## look for known vulnerabilities, if their database can be reached
	@if curl -sSfL -m 20 -o /dev/null https://vuln.go.dev/index/db.json; then go run $(GOVULNCHECK) ./...; \
	else printf '\n*** NOT DONE: the search for known vulnerabilities; it needs vuln.go.dev\n\n' >&2; fi

LINT := .cache/golangci-lint/golangci-lint-$(GOLANGCI_LINT)
lint: $(LINT) prose markdown ## run prose, markdown and the linters of .golangci.yml, including gofmt, vet and staticcheck
	$(LINT) run ./...
	GOOS=js GOARCH=wasm $(LINT) run ./pkg/dashboard/importer
	cd bench && $(CURDIR)/$(LINT) run -c ../.golangci.yml ./...

$(LINT):
	@echo "Building golangci-lint $(GOLANGCI_LINT) into .cache/golangci-lint"
	@rm -rf .cache/golangci-lint
	GOBIN=$(CURDIR)/.cache/golangci-lint GOFLAGS= go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT)
	@mv .cache/golangci-lint/golangci-lint $@

PROSE := .cache/vale/vale-$(VALE)
# The arguments list files and folders, because with ".", Vale would also read .cache, whose files
# change while fetch runs.
prose: ## check the wording of comments and documents by the rules in .vale
	@[ -x $(PROSE) ] || $(MAKE) --no-print-directory $(PROSE) || \
		$(call without,the check of wording; it needs the Go proxy and a C compiler)
	@[ ! -x $(PROSE) ] || $(PROSE) --config=.vale/config.ini --output=line $(filter-out bin,$(wildcard *)) $(wildcard .*.y*ml)

$(PROSE):
	@echo "Building Vale $(VALE) into .cache/vale"
	@rm -rf .cache/vale
	GOBIN=$(CURDIR)/.cache/vale GOFLAGS= go install github.com/vale-cli/vale/v3/cmd/vale@$(VALE)
	@mv .cache/vale/vale $@

markdown: ## look for Markdown that renders wrongly, and for links that lead nowhere, by the rules in .rumdl.toml
	@[ -e $(RUMDL_READY) ] || $(MAKE) --no-print-directory $(RUMDL_READY) || \
		$(call without,the check of Markdown; it needs python3 with venv and its package index)
	@[ ! -e $(RUMDL_READY) ] || .cache/rumdl/bin/rumdl check --no-cache --quiet .

sam: $(SAM_READY)

template: $(SAM_READY) ## lint template.yaml and edge.yaml, and build every function for AWS
	.cache/sam/bin/cfn-lint --include-checks I -- template.yaml edge.yaml
	$(SAM) validate --lint
	$(SAM) build
	@for f in $$(sed -n 's/^  \([A-Za-z0-9]\{1,\}Function\):.*/\1/p' template.yaml); do \
		[ -x ".aws-sam/build/$$f/bootstrap" ] || { echo "sam build created no bootstrap for $$f"; exit 1; }; \
	done
	@! go version -m .aws-sam/build | grep -q 'vcs[.=]' || { echo "sam build puts the commit into the functions"; exit 1; }
	@for f in .aws-sam/build/DashboardFunction/bootstrap $$(ls -S .aws-sam/build/*/bootstrap | grep -v Dashboard | head -n 1); do \
		most=$(MOST_ZIPPED); case $$f in *Dashboard*) most=$$(($(MOST_ZIPPED) + $(MOST_IMPORTER)));; esac; \
		size=$$(gzip -c "$$f" | wc -c); [ "$$size" -le "$$most" ] || { echo "compressed, $$f has $$size bytes, more than $$most"; exit 1; }; \
	done

# Not part of "make test", because the installation takes minutes.
checkov: $(call ready,checkov) ## check template.yaml and edge.yaml for insecure settings; .checkov.yaml lists the skipped checks
	.cache/checkov/bin/checkov --config-file .checkov.yaml

# Contains the parameters and conditions of template.yaml, and the tables that remain when the
# stack is deleted.
tables.yaml: template.yaml ## write the template that imports existing tables into a stack (docs/adopt.md)
	awk '/^[A-Z]/ { section = $$1 } \
		/^  [A-Za-z]/ { table = /Table:$$/ } \
		section ~ /^(AWSTemplateFormatVersion|Parameters|Conditions):/ || /^Resources:/ || section == "Resources:" && table && !/^  #/' $< > $@

schemathesis: $(call ready,schemathesis) ## fetch Schemathesis, which tests the API against openapi.yaml
connector-tools: $(call ready,connectors) ## fetch Airbyte, dlt and Singer, which run the connectors
python-client: $(call ready,python-client) ## fetch what builds and checks the Python client
typescript-client: $(call ready,typescript-client) ## fetch what builds and checks the TypeScript client
p-retry: $(call ready,p-retry) ## fetch p-retry, for the benchmark of clients
requests: $(call ready,requests) ## fetch the Python package requests, for the benchmark of clients
axe: $(call ready,axe-core) ## fetch axe-core, which tests the dashboard's accessibility
rate-limiter-flexible: $(call ready,rate-limiter-flexible) ## fetch the rate limiter that the benchmarks compare with Sluice's
openapi-tools: $(call ready,openapi-tools) ## fetch client generators and linters for openapi.yaml

$(PIP_READY): .cache/%:
	@echo "Installing tools/$(*D) into .cache/$(*D)"
	@rm -rf .cache/$(*D)
	@$(call pip,.cache/$(*D),$(*D))
	@touch $@

$(NPM_READY): .cache/%:
	@echo "Installing tools/$(*D) into .cache/$(*D)"
	@rm -rf .cache/$(*D)
	@$(call npm,.cache/$(*D),$(*D))
	@touch $@

$(call ready,openapi-tools):
	@echo "Installing the tools of openapi.yaml into .cache/openapi-tools"
	@rm -rf .cache/openapi-tools
	@$(call npm,.cache/openapi-tools,openapi-tools)
	@$(call pip,.cache/openapi-tools/python,openapi-tools)
	GOBIN=$(CURDIR)/.cache/openapi-tools GOFLAGS= go install github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@$(OAPI_CODEGEN)
	cp -r internal/test/openapitest/testdata/go .cache/openapi-tools/go && cd .cache/openapi-tools/go && go mod download
	@touch $@

lock: $(call ready,uv) ## write the hashes of tools again, after a version in a file *.in or package.json has changed
	@for f in tools/*/*.in; do \
		.cache/uv/bin/uv pip compile --quiet --universal --python-version 3.11 --only-binary :all: --generate-hashes --no-annotate \
			--no-emit-index-url --custom-compile-command "make lock" -o "$${f%.in}.txt" "$$f" || exit 1; \
	done
	@for d in $(dir $(wildcard tools/*/package.json)); do \
		npm install --prefix "$$d" --package-lock-only --ignore-scripts --omit-lockfile-registry-resolved --no-audit --no-fund --loglevel error || exit 1; \
	done

# The tests install the client with the wheels of its dependencies, in new environments.
# Python 3.10 needs older ones.
$(call ready,python-client):
	@echo "Installing tools/python-client into .cache/python-client"
	@rm -rf .cache/python-client
	@$(call pip,.cache/python-client,python-client)
	@for f in requirements python3.10; do \
		.cache/python-client/bin/pip download --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: \
			-d .cache/python-client/wheels -r tools/python-client/$$f.txt || exit 1; \
	done
	@touch $@

blocking-client: python-client ## write the blocking Python client, after the one for asyncio has changed
	@.cache/python-client/bin/python clients/python/generate.py clients/python/src/sluice_client

# A copy of generate.mjs beside the modules that it imports.
TYPESCRIPT := .cache/typescript-client
typescript-types: typescript-client ## write the types of the TypeScript client, after openapi.yaml has changed
	@cp clients/typescript/generate.mjs $(TYPESCRIPT) && node $(TYPESCRIPT)/generate.mjs openapi.yaml > clients/typescript/src/api.ts

npm-package: typescript-client ## build the TypeScript client, bin/sluice-client-VERSION.tgz
	@rm -rf clients/typescript/dist && mkdir -p bin
	@PATH="$(CURDIR)/$(TYPESCRIPT)/node_modules/.bin:$$PATH" npm pack --silent --pack-destination bin ./clients/typescript

connectors: connector-tools ## sync 25,000 records with each connector and report the throughput
	CONNECTORS_ENTITIES=5000 CONNECTORS_EVENTS=20000 go test -count=1 -v -run TestConnectors ./connectors

sbom: ## write bin/sluice.cdx.json, which lists the modules in the program and in the functions (CycloneDX)
	@mkdir -p bin
	@version=$$(sed -n 's/^var version = "\(.*\)"/\1/p' cmd/sluice/main.go) && \
	{ go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}' ./cmd/sluice ./functions/... && \
		echo std $$(go env GOVERSION | sed s/go//); } | sort -u | \
	awk -v version=$$version 'NF { printf "%s    {\"type\": \"library\", \"name\": \"%s\", \"version\": \"%s\", \"purl\": \"pkg:golang/%s@%s\"}", sep, $$1, $$2, $$1, $$2; sep = ",\n" } \
		BEGIN { printf "{\n  \"bomFormat\": \"CycloneDX\", \"specVersion\": \"1.6\", \"version\": 1,\n"; \
			printf "  \"metadata\": {\"component\": {\"type\": \"application\", \"name\": \"sluice\", \"version\": \"%s\"}},\n  \"components\": [\n", version } \
		END { print "\n  ]\n}" }' > bin/sluice.cdx.json

screenshots: axe ## take screenshots of the dashboard for bin/screenshots and the README
	mkdir -p bin/screenshots
	SCREENSHOTS=$(CURDIR)/bin/screenshots go test -count=1 -run 'Dashboard' ./cmd/sluice
	cp bin/screenshots/overview-1440-light.png docs/dashboard.png

dynamodb-local: .cache/dynamodb-local/pom.xml ## fetch DynamoDB Local, the database for tests

# Fetches into a temporary directory and then renames it, so that the result is always complete.
.cache/dynamodb-local/pom.xml: internal/test/dynamolocal/pom.xml
	@echo "Fetching DynamoDB Local into .cache/dynamodb-local"
	@rm -rf .cache/dynamodb-local.part
	mvn -B -q -f $< dependency:copy-dependencies -DincludeScope=runtime "-DoutputDirectory=$(CURDIR)/.cache/dynamodb-local.part"
	@cp $< .cache/dynamodb-local.part/pom.xml
	@rm -rf .cache/dynamodb-local
	@mv .cache/dynamodb-local.part .cache/dynamodb-local

bench: importer dynamodb-local rate-limiter-flexible python-client requests npm-package p-retry ## run the benchmarks and write bench/results; ONLY=memory runs one group
	@for group in $(or $(ONLY),dynamodb stores memory handler server peers deletions records find clients coldstart money); do \
		BENCHSTAT=$(BENCHSTAT) bench/run.sh $$group || exit 1; \
	done

bench-compare: ## run the benchmarks of the working tree and of the revision BASE, and compare them
	@test -n "$(BASE)" || { echo "usage: make bench-compare BASE=REVISION"; exit 1; }
	@BENCHSTAT=$(BENCHSTAT) bench/compare.sh $(BASE)

# Runs the functions of both revisions against the same tables, as during an update of a stack.
mixed: ## run the functions of the working tree beside those of the revision BASE
	@test -n "$(BASE)" || { echo "usage: make mixed BASE=REVISION"; exit 1; }
	@base=$$(mktemp -d) && trap "git worktree remove --force $$base" EXIT && git worktree add --quiet --detach $$base $(BASE) && rm -rf bin/mixed && \
	(cd $$base && CGO_ENABLED=0 go build -buildvcs=false -tags lambda.norpc,nethttpomithttp2 -trimpath -ldflags "-s -w" -o $(CURDIR)/bin/mixed/ ./functions/...) && \
	MIXED_BASE=$(CURDIR)/bin/mixed go test -count=1 -v -run TestMixedRevisions ./functions

versitygw: .cache/versitygw/ready-$(VERSITYGW) ## build Versity S3 Gateway, the S3 server for tests

.cache/versitygw/ready-$(VERSITYGW):
	@echo "Building Versity S3 Gateway $(VERSITYGW) into .cache/versitygw"
	@rm -rf .cache/versitygw
	GOBIN=$(CURDIR)/.cache/versitygw GOFLAGS= go install github.com/versity/versitygw/cmd/versitygw@$(VERSITYGW)
	@touch $@

# For each function of template.yaml, sam build runs one of these targets. For example,
# build-ListEntityFunction builds functions/list-entity. SAM does not pass on the template's
# parameter Architecture, so the variable ARCHITECTURE must be set to the same value. Without
# -buildvcs=false, a binary would contain the commit, and every commit would deploy every function.
ARCHITECTURE ?= arm64
GOARCH_arm64 := arm64
GOARCH_x86_64 := amd64
build-DashboardFunction: importer
build-%Function:
	@test -n "$(ARTIFACTS_DIR)" || { echo "only sam build can run $@, because it sets ARTIFACTS_DIR"; exit 1; }
	@test -n "$(GOARCH_$(ARCHITECTURE))" || { echo "ARCHITECTURE=$(ARCHITECTURE) is neither arm64 nor x86_64"; exit 1; }
	CGO_ENABLED=0 GOOS=linux GOARCH=$(GOARCH_$(ARCHITECTURE)) go build -buildvcs=false -tags lambda.norpc,nethttpomithttp2 -trimpath -ldflags "-s -w" \
		-o "$(ARTIFACTS_DIR)/bootstrap" ./functions/$$(echo $* | awk '{ gsub(/[A-Z]/, "-&"); print substr(tolower($$0), 2) }')

clean: ## remove everything built and fetched, but not the local server's data
	rm -rf .aws-sam .cache bin
