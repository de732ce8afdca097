# A list of scripts. `make test` and `make demo` need only Go, make and git.
export GOTOOLCHAIN = go1.27.3
export CGO_ENABLED = 0

.PHONY: build test demo check fmt vet static playbook test-race fuzz bench generate clean help

help: ## say what there is
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /	/'

build: ## one static binary: bin/seatsmith
	go build -trimpath -o bin/seatsmith ./cmd/seatsmith

test: ## every test, without a C compiler
	go test ./...

demo: ## a fine-tune that lost its head in, a verified NVFP4 checkpoint out (in demo/)
	@go build -trimpath -o bin/seatsmith ./cmd/seatsmith
	@rm -rf demo
	@mkdir demo
	bin/seatsmith forge examples/tavern/job.yaml --output demo/tavern-nvfp4
	bin/seatsmith inspect demo/tavern-nvfp4
	bin/seatsmith verify demo/tavern-nvfp4 --source testdata/tiny-finetune --donor testdata/tiny

check: fmt vet static playbook ## what every edit should pass
	go test . ./cmd/...

fmt: ## fail when gofmt would change a file
	@out=$$(git ls-files '*.go' | xargs gofmt -l); test -z "$$out" || { echo "gofmt would change:"; echo "$$out"; exit 1; }

vet: ## go vet here, and for a machine without our assembly
	go vet ./...
	GOARCH=arm64 go vet ./...

static: ## staticcheck, at the version that go.mod pins
	go tool staticcheck ./...

playbook: ## claims, links and rule ids of the playbook, and superseded claims in our own documents
	go run ./cmd/seatsmith playbook lint --code .
	go run ./cmd/seatsmith playbook lint *.md docs changelog testdata/README.md

test-race: ## every test under the race detector (needs a C compiler)
	CGO_ENABLED=1 go test -race ./...

fuzz: ## a few seconds for every fuzz target; FUZZTIME=1m for more
	scripts/fuzz $(or $(FUZZTIME),5s)

bench: ## every Go benchmark, each beside a plain copy or a plain reference
	go test -run '^$$' -bench . -benchmem ./...

generate: ## write the assembly, docs/playbook.md and the lines that claims.lock lacks
	go generate ./...
	go run ./cmd/seatsmith playbook generate .
	go run ./cmd/seatsmith playbook lint -q

clean:
	rm -rf bin demo
