package line

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
	"seatsmith/internal/plan"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
	"seatsmith/internal/verify"
)

// cardFile is the model card, which the hub shows and reads.
const cardFile = "README.md"

// maxCardBytes bounds a card that is read for its front matter.
const maxCardBytes = 4 << 20

// card is what the model card of an output says. It holds no path, no date and not the output's name on this machine: equal
// work on a body of the same name gives an equal card.
type card struct {
	name, repo  string // of the output: owner/name on the hub, and the name alone
	base, donor string // owner/name where known, else the folder's name
	plan        *plan.Plan
	report      *verify.Report
	head        model.Head
	headFrom    string
	vision      bool
	job         Job
	body        frontMatter // what the body's card says, and the donor's where the body's is silent
}

// frontMatter is what is carried over from another card. Source of the keys: the hub's model card specification,
// huggingface/hub-docs, modelcard.md.
type frontMatter struct {
	License     any    `yaml:"license"`
	LicenseName string `yaml:"license_name"`
	LicenseLink string `yaml:"license_link"`
	Language    any    `yaml:"language"`
	Pipeline    string `yaml:"pipeline_tag"`
	from        string // whose card says the license: "body" or "donor", "" for none
}

// readFrontMatter reads the YAML between the first two lines "---" of a card; what cannot be read says nothing.
func readFrontMatter(dir string) frontMatter {
	var f frontMatter
	if dir == "" {
		return f
	}
	data, err := safetensors.ReadRegular(filepath.Join(dir, cardFile), maxCardBytes)
	if err != nil {
		return f
	}
	text := strings.ReplaceAll(string(bytes.TrimPrefix(data, []byte("\ufeff"))), "\r\n", "\n")
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return f
	}
	block, _, ok := strings.Cut(rest, "\n---")
	if !ok || yaml.Unmarshal([]byte(block), &f) != nil {
		return frontMatter{}
	}
	return f
}

// carried is the body's front matter; the license is the donor's where the body's card has none.
func carried(view *model.Model) frontMatter {
	f := readFrontMatter(view.Dir)
	if f.License != nil {
		f.from = string(model.Body)
		return f
	}
	d := readFrontMatter(view.DonorDir)
	if d.License != nil {
		f.License, f.LicenseName, f.LicenseLink, f.from = d.License, d.LicenseName, d.LicenseLink, string(model.Donor)
	}
	if f.Language == nil {
		f.Language = d.Language
	}
	return f
}

// hubName finds owner/name of a folder in a downloader's cache (…/models--owner--name/snapshots/<revision>); "" elsewhere.
func hubName(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	for _, part := range strings.Split(filepath.ToSlash(abs), "/") {
		if rest, ok := strings.CutPrefix(part, "models--"); ok {
			if owner, name, ok := strings.Cut(rest, "--"); ok {
				return owner + "/" + name
			}
		}
	}
	return ""
}

func newCard(j Job, p *plan.Plan, view *model.Model, report *verify.Report) *card {
	c := &card{
		repo: j.Repo, base: j.BaseModel, plan: p, report: report, job: j,
		head: view.Head, headFrom: headFrom(view), vision: view.Config.Vision, body: carried(view),
	}
	if c.base == "" {
		c.base = hubName(j.Body)
	}
	if c.base == "" {
		c.base = folderName(j.Body)
	}
	if j.Donor != "" {
		if c.donor = hubName(j.Donor); c.donor == "" {
			c.donor = folderName(j.Donor)
		}
	}
	if c.repo == "" {
		c.repo = "OWNER/" + c.base[strings.LastIndexByte(c.base, '/')+1:] + "-NVFP4"
	}
	c.name = c.repo[strings.LastIndexByte(c.repo, '/')+1:]
	return c
}

// folderName is the last part of a path, whatever the path is relative to.
func folderName(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return filepath.Base(path)
}

// gaps are what the card could not know.
func (c *card) gaps() []playbook.Finding {
	var out []playbook.Finding
	if c.body.License == nil {
		out = append(out, playbook.New("card-incomplete", cardFile+": license", "neither the body's card nor the donor's names a license", "write license into the card's front matter before you publish it"))
	}
	if !strings.Contains(c.base, "/") {
		out = append(out, playbook.New("card-incomplete", cardFile+": base_model", fmt.Sprintf("nobody said what the fine-tune is called on the hub, so the card says %q, which links nowhere", c.base), "say it with --base-model OWNER/NAME, or base_model in the job"))
	}
	return out
}

// upload is the command that puts the folder on the hub; dir is how the folder is called where the command is given.
func (c *card) upload(dir string) string {
	return fmt.Sprintf("hf upload %s %s .", shellWord(c.repo), shellWord(dir))
}

// shellWord spells an argument so that a shell takes it as one word.
func shellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=:@,") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// front is the card's front matter.
func (c *card) front() ([]byte, error) {
	var n yaml.Node
	n.Kind = yaml.MappingNode
	add := func(key string, value any) error {
		var v yaml.Node
		if err := v.Encode(value); err != nil {
			return err
		}
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, &v)
		return nil
	}
	pipeline := c.body.Pipeline
	if pipeline == "" {
		pipeline = "text-generation"
		if c.vision {
			pipeline = "image-text-to-text"
		}
	}
	tags := []string{"nvfp4", c.plan.Dialect, "vllm"}
	if c.head.Present > 0 {
		tags = append(tags, "mtp", "speculative-decoding")
	}
	errs := []error{add("base_model", c.base), add("base_model_relation", "quantized")}
	for _, f := range []struct {
		key   string
		value any
		given bool
	}{
		{"license", c.body.License, c.body.License != nil},
		{"license_name", c.body.LicenseName, c.body.LicenseName != ""},
		{"license_link", c.body.LicenseLink, c.body.LicenseLink != ""},
		{"language", c.body.Language, c.body.Language != nil},
	} {
		if f.given {
			errs = append(errs, add(f.key, f.value))
		}
	}
	errs = append(errs, add("library_name", "vllm"), add("pipeline_tag", pipeline), add("tags", tags))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(&n); err != nil {
		return nil, err
	}
	return b.Bytes(), enc.Close()
}

// render writes the card.
func (c *card) render() ([]byte, error) {
	front, err := c.front()
	if err != nil {
		return nil, fmt.Errorf("the model card's front matter: %w", err)
	}
	var b bytes.Buffer
	say := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	say("---\n%s---\n\n# %s\n\n", front, text(c.name))
	say("%s, quantized to %s by seatsmith %s without a GPU. ", text(c.base), strings.Join(c.schemes(), " and "), text(c.plan.Version))
	kept, keptAll := "unquantized and byte for byte", "unquantized"
	if s := c.headSchemes(); len(s) > 0 {
		kept = "in part quantized to " + strings.Join(s, " and ")
		keptAll = kept
	}
	switch {
	case c.head.Present == 0:
		say("It has no multi-token-prediction head.\n\n")
	case c.headFrom == string(model.Donor):
		say("Its multi-token-prediction head is that of %s, %d tensors, %s.\n\n", text(c.donor), c.head.Present, kept)
	default:
		say("Its multi-token-prediction head, %d tensors, is its own, %s.\n\n", c.head.Present, keptAll)
	}
	if c.body.from == string(model.Donor) {
		say("The fine-tune's card names no license; the one above is that of the base, %s.\n\n", text(c.donor))
	} else if c.body.from == "" {
		say("Neither the fine-tune's card nor the base's names a license: look there before you use this.\n\n")
	}
	say("## Recipe `%s`\n\n", text(c.plan.Recipe.Name))
	c.recipe(&b)
	say("\n## Weight error\n\n")
	c.errors(&b)
	say("\n## Evaluation\n\nNo eval was run.\n\n## Serving\n\n```\nvllm serve %s", shellWord(c.repo))
	if c.head.Present > 0 {
		say(` --speculative-config '{"method": "mtp", "num_speculative_tokens": 3}'`)
	}
	say("\n```\n\n## Reproduce\n\n```\n%s\n```\n\nThe same sources and version give the same bytes on every machine.\n\n", c.command())
	say("| what | BLAKE3 |\n|---|---|\n| source (configuration and shard headers) | `%s` |\n| plan | `%s` |\n\n", c.plan.Source, c.plan.Hash())
	say("`seatsmith.json` has the hash of every file, `SHA256SUMS` those that `sha256sum -c` reads; `seatsmith verify` checks both.\n")
	say("The folder was judged as %s would load it before it had its name: %s.\n\n", c.report.Engine, c.report.Verdict)
	say("To put the folder on the hub, inside it:\n\n```\n%s\n```\n", c.upload("."))
	return b.Bytes(), nil
}

// text makes a name safe inside Markdown: a line break or a control character would end what it stands in.
func text(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || strings.ContainsRune("`<>|[]", r) {
			return '_'
		}
		return r
	}, s)
}

// schemes are those that something is quantized to.
func (c *card) schemes() []string {
	var out []string
	for s := range c.plan.Schemes {
		if s.Quantized() {
			out = append(out, "`"+string(s)+"`")
		}
	}
	slices.Sort(out)
	return out
}

// headSchemes are those that something of the head is quantized to.
func (c *card) headSchemes() []string {
	var out []string
	for i := range c.plan.Items {
		item := &c.plan.Items[i]
		if name := "`" + string(item.Scheme) + "`"; item.Role == model.RoleHead && item.Scheme.Quantized() && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// recipe is the table of what became of each role.
func (c *card) recipe(b *bytes.Buffer) {
	type key struct {
		role   model.Role
		scheme dialect.Scheme
	}
	type row struct {
		tensors               int
		weights, before, size int64
	}
	rows := map[key]*row{}
	for i := range c.plan.Items {
		item := &c.plan.Items[i]
		k := key{item.Role, item.Scheme}
		if rows[k] == nil {
			rows[k] = &row{}
		}
		r := rows[k]
		r.tensors++
		n := elements(item.Shape)
		bits, _ := item.Dtype.Bits()
		r.weights += n
		r.before += n * bits / 8
		for _, o := range item.Outputs {
			bits, _ := o.Dtype.Bits()
			r.size += elements(o.Shape) * bits / 8
		}
	}
	fmt.Fprint(b, "| role | scheme | tensors | bytes before | bytes after | bits per weight |\n|---|---|---|---|---|---|\n")
	for _, k := range slices.SortedFunc(maps.Keys(rows), func(a, b key) int {
		return strings.Compare(string(a.role)+" "+string(a.scheme), string(b.role)+" "+string(b.scheme))
	}) {
		r, scheme, bits := rows[k], string(k.scheme), "-"
		if !k.scheme.Quantized() {
			scheme = "kept"
		}
		if r.weights > 0 {
			bits = fmt.Sprintf("%.2f", float64(r.size)*8/float64(r.weights))
		}
		fmt.Fprintf(b, "| %s | %s | %d | %d | %d | %s |\n", k.role, scheme, r.tensors, r.before, r.size, bits)
	}
}

func elements(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

// errors is the table of what verify measured.
func (c *card) errors(b *bytes.Buffer) {
	if len(c.report.ErrorByRole) == 0 {
		fmt.Fprintln(b, "Nothing was measured.")
		return
	}
	fmt.Fprint(b, "Against the source, over the quantized tensors of a role: squared error over squared weights, and the largest difference.\n\n| role | relative MSE | largest difference |\n|---|---|---|\n")
	for _, role := range slices.Sorted(maps.Keys(c.report.ErrorByRole)) {
		e := c.report.ErrorByRole[role]
		fmt.Fprintf(b, "| %s | %.6f | %.6g |\n", role, e.RelativeMSE, e.Max)
	}
}

// command repeats the work; folders are called by their names.
func (c *card) command() string {
	parts := []string{"seatsmith", "forge", "--body", shellWord(c.base)}
	if c.donor != "" {
		parts = append(parts, "--donor", shellWord(c.donor))
	}
	recipe := c.job.Recipe
	if recipe != "" && isPath(recipe) {
		recipe = filepath.Base(recipe)
	}
	stats := c.job.Stats
	if stats != "" {
		stats = filepath.Base(stats)
	}
	for _, f := range []struct{ flag, value string }{
		{"--recipe", recipe}, {"--stats", stats}, {"--dialect", c.plan.Dialect}, {"--math", c.plan.Math}, {"--search", c.plan.Search}, {"--groups", c.plan.Groups}, {"--shard-size", c.job.ShardSize},
	} {
		if f.value != "" {
			parts = append(parts, f.flag, shellWord(f.value))
		}
	}
	if c.job.Force {
		parts = append(parts, "--force")
	}
	if !c.job.compares() {
		parts = append(parts, "--no-diff")
	}
	if len(c.job.Trained) > 0 {
		var roles []string
		for _, r := range c.job.Trained {
			roles = append(roles, string(r))
		}
		parts = append(parts, "--trained", strings.Join(roles, ","))
	}
	return strings.Join(append(parts, "--output", shellWord(c.name)), " ")
}
