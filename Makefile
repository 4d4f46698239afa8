# What one does with this repository. `make` alone prints the targets.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
gotest := go run ./scripts/gotest
LISTEN ?= 127.0.0.1:8080
DATA ?= leaselog-data
FUZZTIME ?= 10s
BENCH ?= .
FROM ?= 1
KILLS ?= 200
STACK ?= leaselog
DEPLOYMENT ?= $(STACK)
ARCH ?= arm64
sam = "$$(scripts/sam/install.sh)" scripts/sam/run.py

.PHONY: help
help: ## Print the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

.PHONY: run
run: build ## Start the server with its embedded store (LISTEN=127.0.0.1:8080, DATA=leaselog-data)
	exec bin/leaselog serve --listen $(LISTEN) --data $(DATA)

.PHONY: build
build: ## Build bin/leaselog
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/leaselog ./cmd/leaselog

.PHONY: test
test: need lint ## Set up and run every test there is
	scripts/test.sh

.PHONY: check
check: lint ## The quick loop: format, vet, staticcheck, unit tests with the race detector
	$(gotest) -race -vet=off -short $$(go list ./... | grep -v /accept$$)

.PHONY: lint
lint: ## Check format, vet, staticcheck
	scripts/lint.sh

.PHONY: bench
bench: build ## Measure the server beside an empty one (ARGS="-run depth,delayed -runs 3"; see go run ./bench -h)
	go run ./bench -server bin/leaselog $(ARGS)

.PHONY: micro
micro: ## Run the Go benchmarks (BENCH=regexp)
	go test -run '^$$' -bench '$(BENCH)' -benchmem ./...

.PHONY: sim
sim: ## Run the simulator (SECONDS=600, or SEEDS=1000 FROM=1)
	scripts/sim.sh '$(SECONDS)' '$(SEEDS)' '$(FROM)'

.PHONY: fuzz
fuzz: ## Run every fuzz function (FUZZTIME=10s each)
	scripts/fuzz.sh $(FUZZTIME)

.PHONY: crash
crash: ## Kill the server again and again under load (KILLS=200)
	LEASELOG_KILLS=$(KILLS) $(gotest) ./cmd/leaselog -count=1 -run TestKill -timeout 60m

.PHONY: cover
cover: ## Say how much of each package the tests reach
	scripts/cover.sh

.PHONY: localstack
localstack: ## Run LocalStack with infra/ in it until Ctrl-C (STACK=leaselog)
	exec go run ./scripts/localstack -stack $(STACK)

.PHONY: infra
infra: ## Deploy what has state to your AWS account (STACK=leaselog DEPLOYMENT=leaselog PARAMETERS="AlarmTopic=arn:...")
	$(sam) deploy --template-file infra/template.yaml --stack-name $(STACK) --no-fail-on-empty-changeset \
		--parameter-overrides Deployment=$(DEPLOYMENT) $(PARAMETERS)

.PHONY: deploy
deploy: functions ## Deploy the functions beside it (STACK=leaselog ARCH=arm64|amd64 PARAMETERS=...)
	$(sam) deploy --template-file dist/template.yaml --stack-name $(STACK)-functions --no-fail-on-empty-changeset \
		--resolve-s3 --capabilities CAPABILITY_IAM \
		--parameter-overrides InfraStack=$(STACK) Architecture=$(subst amd64,x86_64,$(ARCH)) $(PARAMETERS)

.PHONY: functions
functions: ## Build every function into dist/ (ARCH=arm64)
	scripts/functions.sh $(ARCH) dist

.PHONY: need
need:
	@scripts/need.sh
