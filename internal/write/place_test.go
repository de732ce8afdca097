package write_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"seatsmith/internal/plan"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
	"seatsmith/internal/write"
)

func TestAnOutputThatIsThereIsNeverTouched(t *testing.T) {
	m, p := tiny(t)
	for name, mk := range map[string]func(path string) error{
		"folder":        func(path string) error { return os.Mkdir(path, 0o755) },
		"file":          func(path string) error { return os.WriteFile(path, []byte("mine"), 0o644) },
		"dangling link": func(path string) error { return os.Symlink("nowhere", path) },
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			must(t, mk(out))
			_, err := write.Run(context.Background(), p, m, out, write.Options{})
			if !errors.Is(err, fs.ErrExist) {
				t.Errorf("got %v, want fs.ErrExist", err)
			}
			says(t, err, out)
			absent(t, out+".partial")
		})
	}
}

func TestAnOutputThatAppearsMeanwhileIsNotOverwrittenAndTheWorkIsKept(t *testing.T) {
	m, p := tiny(t)
	dir := t.TempDir()
	mustRun(t, p, m, filepath.Join(dir, "whole"), write.Options{})
	for _, at := range []string{"journal-started", "journal-removed"} {
		t.Run(at, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			undo := write.SetFailpoint(func(name string) {
				if name == at {
					if err := os.Mkdir(out, 0o755); err != nil {
						t.Error(err)
					}
				}
			})
			_, err := write.Run(context.Background(), p, m, out, write.Options{})
			undo()
			if !errors.Is(err, fs.ErrExist) {
				t.Errorf("got %v, want fs.ErrExist", err)
			}
			says(t, err, out, "appeared")
			if len(tree(t, out)) != 0 {
				t.Error("something was written into the folder that appeared")
			}
			must(t, os.Remove(out))
			if res := mustRun(t, p, m, out, write.Options{}); res.Resumed != len(p.Shards) {
				t.Errorf("resumed %d of %d shards", res.Resumed, len(p.Shards))
			}
			sameTree(t, tree(t, out), tree(t, filepath.Join(dir, "whole")))
		})
	}
}

func TestOddPaths(t *testing.T) {
	body, err := filepath.Abs(tinyBody)
	must(t, err)
	donor, err := filepath.Abs(tinyDonor)
	must(t, err)
	m := openView(t, body, donor)
	p := makePlan(t, m, smallShards)
	dir := t.TempDir()
	mustRun(t, p, m, filepath.Join(dir, "whole"), write.Options{})
	want := tree(t, filepath.Join(dir, "whole"))
	must(t, os.Mkdir(filepath.Join(dir, "real"), 0o755))
	must(t, os.Symlink("real", filepath.Join(dir, "link")))
	t.Chdir(filepath.Join(dir, "real"))
	for _, out := range []string{
		filepath.Join(dir, "with space"), filepath.Join(dir, "Größe-模型"), filepath.Join(dir, "slash") + "/",
		"relative", "./dotted/../dots", filepath.Join(dir, "link", "linked"), filepath.Join(dir, "a%20b\nc"), "-rf",
	} {
		t.Run(filepath.Base(out), func(t *testing.T) {
			mustRun(t, p, m, out, write.Options{})
			sameTree(t, tree(t, filepath.Clean(out)), want)
			absent(t, filepath.Clean(out)+".partial")
		})
	}
	for _, out := range []string{"", ".", "..", "/"} {
		if _, err := write.Run(context.Background(), p, m, out, write.Options{}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("output %q: got %v, want fs.ErrExist", out, err)
		}
	}
}

func TestAParentThatIsMissingOrReadOnlyIsNamed(t *testing.T) {
	m, p := tiny(t)
	dir := filepath.Join(t.TempDir(), "parent")
	out := filepath.Join(dir, "out")
	_, err := write.Run(context.Background(), p, m, out, write.Options{})
	says(t, err, dir, "does not exist")
	must(t, os.Mkdir(dir, 0o755))
	asNobody(t, dir, func() {
		_, err := write.Run(context.Background(), p, m, out, write.Options{})
		if !errors.Is(err, fs.ErrPermission) {
			t.Errorf("got %v, want fs.ErrPermission", err)
		}
		says(t, err, out)
	})
	absent(t, out)
	absent(t, out+".partial")
}

// asNobody makes dir read-only and runs f without the right to override that. Root takes on another file-system user
// for the time, which holds for one thread only.
func asNobody(t *testing.T, dir string, f func()) {
	t.Helper()
	must(t, os.Chmod(dir, 0o555))
	defer os.Chmod(dir, 0o755)
	if os.Geteuid() != 0 {
		f()
		return
	}
	const nobody = 65534
	for parent := filepath.Dir(dir); parent != os.TempDir() && len(parent) > 1; parent = filepath.Dir(parent) {
		os.Chmod(parent, 0o755) // the test's own, closed to others
	}
	var wg sync.WaitGroup
	dropped := false
	wg.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		unix.Setfsuid(nobody)
		if got, _ := unix.SetfsuidRetUid(nobody); got == nobody {
			dropped = true
			f()
		}
	})
	wg.Wait()
	if !dropped {
		t.Skip("NOT CHECKED: running as root without the right to become another file-system user")
	}
}

func TestPlansThatDoNotFitAreRefusedBeforeAnyWork(t *testing.T) {
	m, good := tiny(t)
	item := func(p *plan.Plan, pred func(*plan.Item) bool) *plan.Item { return firstItem(t, p, pred) }
	for name, c := range map[string]struct {
		spoil func(p *plan.Plan)
		words []string
	}{
		"schema":         {func(p *plan.Plan) { p.Schema = 2 }, []string{"schema 2"}},
		"other source":   {func(p *plan.Plan) { p.Source = "elsewhere" }, []string{"elsewhere", good.Source}},
		"arithmetic":     {func(p *plan.Plan) { p.Math = "abacus" }, []string{"abacus"}},
		"dialect":        {func(p *plan.Plan) { p.Dialect = "klingon" }, []string{"klingon"}},
		"search":         {func(p *plan.Plan) { p.Search = "gptq" }, []string{"gptq"}},
		"unknown tensor": {func(p *plan.Plan) { p.Items[0].Source = "nobody.weight" }, []string{"no item"}},
		"twice":          {func(p *plan.Plan) { p.Items[1].Source = p.Items[0].Source }, []string{"two items", good.Items[0].Source}},
		"shape":          {func(p *plan.Plan) { p.Items[0].Shape[0]++ }, []string{good.Items[0].Source, "planned as"}},
		"dtype":          {func(p *plan.Plan) { p.Items[0].Dtype = safetensors.F16 }, []string{good.Items[0].Source, "F16"}},
		"lost part":      {func(p *plan.Plan) { it := item(p, isNVFP4); it.Outputs = it.Outputs[1:] }, []string{item(good, isNVFP4).Source, "part"}},
		"doubled part":   {func(p *plan.Plan) { it := item(p, isNVFP4); it.Outputs = append(it.Outputs, it.Outputs[0]) }, []string{"two outputs"}},
		"unknown part": {func(p *plan.Plan) {
			it := item(p, isNVFP4)
			o := it.Outputs[0]
			o.Part = "aura"
			it.Outputs = append(it.Outputs, o)
		}, []string{"aura"}},
		"small output":      {func(p *plan.Plan) { item(p, isNVFP4).Outputs[0].Shape = []int64{1, 1} }, []string{"cannot hold"}},
		"kept as another":   {func(p *plan.Plan) { item(p, isKept).Outputs[0].Dtype = safetensors.U8 }, []string{"kept"}},
		"scheme":            {func(p *plan.Plan) { item(p, isNVFP4).Scheme = "int3" }, []string{"int3"}},
		"same name":         {func(p *plan.Plan) { p.Items[1].Outputs[0].Name = p.Items[0].Outputs[0].Name }, []string{"both become"}},
		"no shard":          {func(p *plan.Plan) { s := &p.Shards[0]; s.Items = s.Items[1:] }, []string{p0(good)}},
		"two shards":        {func(p *plan.Plan) { s := &p.Shards[1]; s.Items = append(s.Items, p.Shards[0].Items[0]) }, []string{good.Shards[1].File}},
		"item nowhere":      {func(p *plan.Plan) { p.Shards[0].Items[0] = len(p.Items) }, []string{good.Shards[0].File}},
		"shard bytes":       {func(p *plan.Plan) { p.Shards[0].Bytes++ }, []string{good.Shards[0].File, "tensor bytes"}},
		"shard escapes":     {func(p *plan.Plan) { p.Shards[0].File = "../x.safetensors" }, []string{"../x.safetensors"}},
		"shard named twice": {func(p *plan.Plan) { p.Shards[1].File = p.Shards[0].File }, []string{good.Shards[0].File}},
		"shard as config":   {func(p *plan.Plan) { p.Shards[0].File = "config.json" }, []string{"config.json"}},
		"file escapes":      {func(p *plan.Plan) { p.Files[0].Name = "../../etc/passwd" }, []string{"../../etc/passwd"}},
		"file absolute":     {func(p *plan.Plan) { p.Files[0].Name = "/etc/passwd" }, []string{"/etc/passwd"}},
		"file over shard":   {func(p *plan.Plan) { p.Files[0].Name = p.Shards[0].File }, []string{good.Shards[0].File}},
		"file in journal":   {func(p *plan.Plan) { p.Files[0].Name = write.JournalFile + "/x" }, []string{write.JournalFile}},
		"file unknown":      {func(p *plan.Plan) { p.Files[0].Name = "novel.txt" }, []string{"novel.txt"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := clone(t, good)
			c.spoil(p)
			out := filepath.Join(t.TempDir(), "out")
			_, err := write.Run(context.Background(), p, m, out, write.Options{})
			says(t, err, c.words...)
			absent(t, out)
			absent(t, out+".partial")
		})
	}
}

// p0 names what goes missing when the first item leaves its shard: the tensor, or the shard's size.
func p0(p *plan.Plan) string { return p.Shards[0].File }

func TestAGroupThatLiesInTwoShardsIsRefused(t *testing.T) {
	m, p := tiny(t)
	p = clone(t, p)
	a := firstItem(t, p, isNVFP4)
	var home int
	for s := range p.Shards {
		for _, i := range p.Shards[s].Items {
			if &p.Items[i] == a {
				home = s
			}
		}
	}
	for s := range p.Shards {
		for _, i := range p.Shards[s].Items {
			if it := &p.Items[i]; s != home && it.Scheme.NVFP4() {
				it.Group, a.Group = "shared", "shared"
			}
		}
	}
	_, err := write.Run(context.Background(), p, m, filepath.Join(t.TempDir(), "out"), write.Options{})
	says(t, err, "group shared", "must lie in one")
}

func TestARefusedPlanIsNotCarriedOut(t *testing.T) {
	m, p := tiny(t)
	p = clone(t, p)
	bad := playbook.Finding{Rule: "source-nonfinite", Severity: playbook.Error, Subject: "x", Message: "m", Fix: "f"}
	p.Findings = append(p.Findings, bad, playbook.Finding{Rule: "zero-tensor", Severity: playbook.Warning})
	out := filepath.Join(t.TempDir(), "out")
	_, err := write.Run(context.Background(), p, m, out, write.Options{})
	var r *write.Refusal
	if !errors.As(err, &r) || len(r.Findings) != 1 || r.Findings[0] != bad {
		t.Errorf("got %v, want a refusal with the plan's error alone", err)
	}
	absent(t, out+".partial")
}

func TestARefusalNamesTheFirstFindingsAndCountsTheRest(t *testing.T) {
	r := &write.Refusal{}
	for _, s := range strings.Fields("a b c d e") {
		r.Findings = append(r.Findings, playbook.Finding{Rule: "r", Subject: s, Message: "m"})
	}
	if got, want := r.Error(), "r: a: m; r: b: m; r: c: m; and 2 more"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
