# Everything a developer types. `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Toolchains that tools/provide put into the cache come first on PATH.
WITH_TOOLCHAINS = eval "$$(tools/provide --env)";

SHELL_SCRIPTS := tools/provide .ci/run

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

.PHONY: tools
tools: ## provide system packages, Rust, Go, etcd, etcdctl, etcdutl, kube-apiserver, kubectl and versitygw
	@tools/provide

.PHONY: compilers
compilers:
	@tools/provide --build

.PHONY: build
build: compilers ## build the development binary, target/debug/holdfast
	@$(WITH_TOOLCHAINS) cargo build --locked

.PHONY: demo
demo: tools ## watch a real cluster being backed up, its keys escrowed, both restored, and read the report
	@echo 'building holdfast; the first time takes some minutes'
	@$(WITH_TOOLCHAINS) cargo build --locked && target/debug/holdfast demo

.PHONY: lint
lint: compilers ## formatting, clippy, the rules of tests/tidy.rs, shell syntax
	@$(WITH_TOOLCHAINS) cargo fmt --check
	@$(WITH_TOOLCHAINS) cargo clippy --locked --all-targets -- -D warnings
	@$(WITH_TOOLCHAINS) cargo test --locked --test tidy
	@for script in $(SHELL_SCRIPTS); do bash -n "$$script"; done

.PHONY: test
test: tools ## all tests, with real etcd, kube-apiserver and S3, and their count
	@mkdir -p target
	@$(WITH_TOOLCHAINS) cargo test --locked --no-fail-fast 2>&1 | tee target/test.log
	@awk '/^test result: / { passed += $$4; failed += $$6 } END { printf "%d passed, %d failed\n", passed, failed }' target/test.log
