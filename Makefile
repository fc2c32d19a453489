# The front door. `make demo` and `make test` install what they need, build, and run; the rest are their parts.
PRESET ?= release
BUILD  := build/$(PRESET)
JOBS   ?= $(shell nproc)

.DEFAULT_GOAL := help
.PHONY: help deps configure build parquet demo test bench show manual lint format install clean

help:            ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */  make \1\t/' | expand -t 18

deps:            ## install Debian packages and the Python environment under build/venv (does nothing where all is there)
	@tools/deps

configure: deps
	@cmake --preset $(PRESET) -DLAZYTRAIN_BENCH=ON > $(BUILD).configure.log 2>&1 || { cat $(BUILD).configure.log; exit 1; }

build: configure ## build the program, the tests and the benchmarks (PRESET=release|debug|asan|tsan)
	@cmake --build $(BUILD) -j $(JOBS)

parquet:         ## build with Parquet datasets (Arrow's libraries, pinned); later builds of this PRESET keep them
	@tools/deps parquet
	@cmake --preset $(PRESET) -DLAZYTRAIN_BENCH=ON -DLAZYTRAIN_PARQUET=ON > $(BUILD).configure.log 2>&1 || { cat $(BUILD).configure.log; exit 1; }
	@cmake --build $(BUILD) -j $(JOBS)

demo:            ## fine-tune a real model on word problems; exact match before and after
	@tools/demo

test: build      ## all tests
	@tools/run-tests $(PRESET)

bench: build     ## microbenchmarks
	@for program in $(BUILD)/bench/*_bench; do echo "== $$program"; $$program || exit 1; done

show:            ## the acceptance lines; make show WHAT=name runs one
	@tools/show/run "$(WHAT)"

manual: build    ## the manual, as pages for a browser, in build/manual/site
	@tools/manual

lint: configure  ## clang-format and clang-tidy over the whole source
	@tools/lint $(PRESET)

format:          ## clang-format in place
	@git ls-files '*.h' '*.cpp' | xargs clang-format -i

PREFIX ?= /usr/local
install: build   ## install under PREFIX (default /usr/local)
	@cmake --install $(BUILD) --prefix $(PREFIX)

clean:           ## remove build output (the Python environment and downloads stay)
	@rm -rf build/release build/debug build/asan build/tsan build/fuzz
