package server

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/internal/test/child"
)

// build returns the path of the binary. module is the directory of the command's module.
func build(b *testing.B, module, command string) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), filepath.Base(command))
	cmd := exec.Command("go", "build", "-o", path, command)
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("build %s: %v\n%s", command, err, out)
	}
	return path
}

type process struct {
	*child.Process
	address string
}

// startSluice starts "sluice serve" with the highest limits.
func startSluice(b *testing.B, program string) *process {
	b.Helper()
	return start(b, program, "serve", "--addr", "127.0.0.1:0", "--data-dir", b.TempDir())
}

// startUnlimited is startSluice without limits for the clients' addresses.
func startUnlimited(b *testing.B, program string) *process {
	b.Helper()
	s, _ := startUnlimitedIn(b, program)
	return s
}

func startUnlimitedIn(b *testing.B, program string) (s *process, dir string) {
	b.Helper()
	dir = b.TempDir()
	if out, err := exec.Command(program, "limits", "set", "127.0.0.0/8", "--action", "unlimited", "--data-dir", dir).CombinedOutput(); err != nil {
		b.Fatalf("set limits: %v\n%s", err, out)
	}
	return start(b, program, "serve", "--addr", "127.0.0.1:0", "--data-dir", dir), dir
}

// start waits until the server has printed its address.
func start(b *testing.B, program string, args ...string) *process {
	b.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "LIMIT_RECORDS=1000000", "LIMIT_IMPORTS=900", "LIMIT_REQUESTS=900", "AUTH_MODE=none")
	p, err := child.Start(cmd)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(p.Kill)
	address, err := p.ReadyText(b.Context(), `listens on http://(\S+)\n`)
	if err != nil {
		b.Fatalf("start %s: %v", program, err)
	}
	return &process{Process: p, address: address}
}

// cpu returns the processor time used so far, with a resolution of 10 ms. It needs Linux.
func (p *process) cpu(b *testing.B) time.Duration {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		b.Fatal(err)
	}
	const userHZ = 100
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // fields[0] is the third field of stat
	var ticks [2]int
	for i, field := range fields[11:13] { // utime and stime
		if ticks[i], err = strconv.Atoi(field); err != nil {
			b.Fatal(err)
		}
	}
	return time.Duration(ticks[0]+ticks[1]) * time.Second / userHZ
}

// memory returns a field of /proc/PID/status, in MB. It needs Linux.
func (p *process) memory(b *testing.B, field string) float64 {
	b.Helper()
	n, err := p.Memory(field)
	if err != nil {
		b.Fatal(err)
	}
	return float64(n) / 1e6
}
