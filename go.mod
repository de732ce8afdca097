module seatsmith

go 1.27.0

require (
	// the nearest Jinja2 of Go: a second opinion on every render of a chat template, in a process of its own.
	github.com/ardanlabs/jinja v1.12.0
	// reads and interpolates compose files, whose serve commands are judged with the checkpoint.
	github.com/compose-spec/compose-go/v2 v2.16.2
	// split expressions of tokenizers that are not written by hand: look-ahead and \p{M}, which regexp lacks.
	github.com/dlclark/regexp2/v2 v2.13.0
	// sizes that people write and read (5GB, 3.2 MB).
	github.com/dustin/go-humanize v1.1.0
	// tests: differences of structures, readable.
	github.com/google/go-cmp v0.7.0
	// the client of MCP servers, whose live tool schemas are captured; key order is taken from the wire.
	github.com/modelcontextprotocol/go-sdk v1.8.0
	// tests: testscript, one archive per story of the command line.
	github.com/rogpeppe/go-internal v1.16.0
	// commands, flags, help, completion.
	github.com/spf13/cobra v1.10.2
	// reads single fields of config.json without losing key order.
	github.com/tidwall/gjson v1.20.3
	// sets single fields of config.json and leaves every other byte as it is.
	github.com/tidwall/sjson v1.2.9
	// progress bars with rate and time left, silent in a pipe.
	github.com/vbauerster/mpb/v8 v8.16.2
	// job, recipe and playbook files, strict about unknown fields.
	go.yaml.in/yaml/v3 v3.0.6
	// fallocate, flock, renameat2 and CPU features.
	golang.org/x/sys v0.50.0
	// is standard error a terminal?.
	golang.org/x/term v0.48.0
	// NFC, which tokenizers apply before they split.
	golang.org/x/text v0.44.0
	// hashes of shards at memory speed, in pure Go with assembly.
	lukechampine.com/blake3 v1.4.1
	// tests: properties over generated inputs, shrunk.
	pgregory.net/rapid v1.3.0
)

require (
	github.com/BurntSushi/toml v1.4.1-0.20240526193622-a339e1f7089c // indirect
	github.com/VividCortex/ewma v1.2.0 // indirect
	github.com/acarl005/stripansi v0.0.0-20180116102854-5a71ef0e047d // indirect
	github.com/clipperhouse/uax29/v2 v2.7.0 // indirect
	github.com/distribution/reference v0.5.0 // indirect
	github.com/docker/go-connections v0.4.0 // indirect
	github.com/docker/go-units v0.5.0 // indirect
	github.com/go-viper/mapstructure/v2 v2.4.0 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/klauspost/cpuid/v2 v2.0.12 // indirect
	github.com/mattn/go-runewidth v0.0.30 // indirect
	github.com/mattn/go-shellwords v1.0.12 // indirect
	github.com/opencontainers/go-digest v1.0.0 // indirect
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.1 // indirect
	github.com/segmentio/asm v1.1.3 // indirect
	github.com/segmentio/encoding v0.5.4 // indirect
	github.com/sirupsen/logrus v1.10.1 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
	github.com/tidwall/match v1.1.1 // indirect
	github.com/tidwall/pretty v1.3.0 // indirect
	github.com/vbauerster/cupwriter v0.0.5 // indirect
	github.com/xhit/go-str2duration/v2 v2.1.0 // indirect
	github.com/yosida95/uritemplate/v3 v3.0.2 // indirect
	go.yaml.in/yaml/v4 v4.0.0-rc.4 // indirect
	golang.org/x/exp/typeparams v0.0.0-20231108232855-2478ac86f678 // indirect
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/oauth2 v0.35.0 // indirect
	golang.org/x/sync v0.25.0 // indirect
	golang.org/x/time v0.15.0 // indirect
	golang.org/x/tools v0.52.0 // indirect
	honnef.co/go/tools v0.8.2 // indirect
)

// The linter of `make static`; it is not part of the program.
tool honnef.co/go/tools/cmd/staticcheck
