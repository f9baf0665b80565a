# Muster's front door. `make demo` and `make test` work on a bare Debian or
# Ubuntu machine with git and make: they install what is missing, by name.

.PHONY: all demo test test-cluster check-all reproduce format clean install deps deps-test \
	deps-check deps-reproduce

all: deps
	@cmake --preset release > /dev/null
	@cmake --build --preset release
demo: all
	@bash examples/demo.sh build/release/muster
test: deps-test
	@bash tools/run-tests dev
test-cluster:
	@bash tools/test-cluster
check-all: deps-check
	@bash tools/check-all
reproduce: deps-reproduce all
	@bash tools/reproduce $(ONLY)
format:
	@clang-format -i $$(git ls-files '*.c' '*.h')
install: all
	@cmake --install build/release
clean:
	rm -rf build
deps:
	@bash tools/install-deps build
deps-test:
	@bash tools/install-deps test
deps-check:
	@bash tools/install-deps check
deps-reproduce:
	@bash tools/install-deps reproduce
