// Package bench measures Sluice beside the alternatives and writes the figures
// into docs/performance.md. Each group of measurements is a package below; they
// run one after the other, on a machine that should do nothing else:
//
//	make bench
//	make bench ONLY=memory    one group; the figures of the others stay
package bench

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"sluice/bench/coldstart"
	"sluice/bench/dynamo"
	"sluice/bench/growth"
	"sluice/bench/handler"
	"sluice/bench/memory"
	"sluice/bench/money"
	"sluice/bench/report"
	"sluice/bench/serve"
)

// document is where the figures go: between the comments that name a group.
const document = "docs/performance.md"

// groups are run in this order.
var groups = []struct {
	name    string
	measure func(t *testing.T) []report.Section
}{
	{"dynamo", dynamo.Measure},
	{"memory", memory.Measure},
	{"handler", handler.Measure},
	{"coldstart", coldstart.Measure},
	{"serve", serve.Measure},
	{"growth", growth.Measure},
	{"money", money.Measure},
}

// TestFigures measures, and shows all claims in one table in the end. It fails
// only when something cannot be measured: no test asserts a time.
func TestFigures(t *testing.T) {
	t.Chdir("..") // to the module that is measured, where its tools are
	var claims []report.Claim
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			text := fmt.Sprintf("`make bench ONLY=%s`, %s. %s.\n", g.name, time.Now().UTC().Format("2 January 2006"), machine(t))
			for _, s := range g.measure(t) {
				text += "\n" + s.Markdown()
				claims = append(claims, s.Claims...)
			}
			fmt.Printf("\n## %s\n\n%s", g.name, text)
			write(t, g.name, text)
		})
	}
	fmt.Printf("\n%s", report.Claims(claims))
}

// write replaces a group's figures in the document.
func write(t *testing.T, group, text string) {
	b, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), "<!-- "+group+" -->\n")
	_, after, end := strings.Cut(rest, "<!-- end -->\n")
	if !ok || !end {
		t.Fatalf("%s has no place for the figures of %s", document, group)
	}
	if err := os.WriteFile(document, []byte(before+"<!-- "+group+" -->\n"+text+"<!-- end -->\n"+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// machine says what the figures were taken on.
func machine(t *testing.T) string {
	cpu := runtime.GOARCH
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				cpu = strings.TrimSpace(value)
				break
			}
		}
	}
	list := exec.Command("go", append([]string{"list", "-m", "-f", "{{.Path}} {{.Version}}"}, shown...)...)
	list.Dir = "bench"
	versions, err := list.Output()
	if err != nil {
		t.Fatalf("list the versions of modules: %v", err)
	}
	return fmt.Sprintf("%d CPUs (%s), %s; %s, %s", runtime.NumCPU(), cpu, runtime.GOOS, runtime.Version(), strings.Join(strings.Split(strings.TrimSpace(string(versions)), "\n"), ", "))
}

// shown are the modules whose versions the figures name.
var shown = []string{
	"github.com/aws/aws-lambda-go",
	"github.com/aws/aws-sdk-go-v2/service/dynamodb",
	"github.com/awslabs/aws-lambda-go-api-proxy",
	"github.com/sethvargo/go-limiter",
	"github.com/throttled/throttled/v2",
	"github.com/ulule/limiter/v3",
}
