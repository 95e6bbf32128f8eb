package server

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
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
func startUnlimited(b *testing.B, program, dir string) *process {
	b.Helper()
	command(b, program, "limits", "set", "127.0.0.0/8", "--action", "unlimited", "--data-dir", dir)
	return start(b, program, "serve", "--addr", "127.0.0.1:0", "--data-dir", dir)
}

func command(b *testing.B, program string, args ...string) string {
	b.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		b.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// filled returns a copy of a directory that fill has filled in an earlier run, or fills now.
// bench/run.sh removes those of earlier builds.
func filled(b *testing.B, name string, fill func(dir string)) (dir string) {
	b.Helper()
	data, err := filepath.Abs("bin/bench-data")
	if err != nil {
		b.Fatal(err)
	}
	full := filepath.Join(data, name)
	if _, err := os.Stat(full); err != nil {
		part := full + ".part"
		if err := errors.Join(os.RemoveAll(part), os.MkdirAll(part, 0o755)); err != nil {
			b.Fatal(err)
		}
		fill(part)
		if err := os.Rename(part, full); err != nil {
			b.Fatal(err)
		}
	}
	if dir, err = os.MkdirTemp(data, "run"); err != nil { //nolint:usetesting // PostgreSQL, as another user, cannot enter b.TempDir
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) }) //nolint:errcheck // run.sh removes it
	if out, err := exec.Command("cp", "-a", full+"/.", dir).CombinedOutput(); err != nil {
		b.Fatalf("copy: %v\n%s", err, out)
	}
	return dir
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

// stop lets the process finish its files.
func (p *process) stop() {
	p.Signal(syscall.SIGTERM) //nolint:errcheck // Wait shows whether it has ended
	p.Wait()                  //nolint:errcheck // PocketBase fails when it is stopped
}

// cpu returns the processor time that the process and its descendants have used so far, with a
// resolution of 10 ms. It needs Linux.
func (p *process) cpu(b *testing.B) time.Duration {
	b.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		b.Fatalf("no processes: %v", err)
	}
	parents, ticks := make(map[int]int), make(map[int]int)
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // the process has ended
		}
		pid := number(b, filepath.Base(filepath.Dir(path)))
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // fields[0] is the third field of stat
		parents[pid] = number(b, fields[1])
		for _, field := range fields[11:15] { // utime, stime, and those of children that have ended
			ticks[pid] += number(b, field)
		}
	}
	const userHZ = 100
	used := 0
	for pid := range ticks {
		for ancestor := pid; ancestor > 1; ancestor = parents[ancestor] {
			if ancestor == p.PID() {
				used += ticks[pid]
			}
		}
	}
	return time.Duration(used) * time.Second / userHZ
}

// written returns how many bytes have been written to the device that holds the directory, after a
// sync. It counts what other programs write, too. It needs Linux.
func written(b *testing.B, dir string) int {
	b.Helper()
	syscall.Sync()
	var s syscall.Stat_t
	if err := syscall.Stat(dir, &s); err != nil {
		b.Fatal(err)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/stat", s.Dev>>8&0xfff, s.Dev&0xff|s.Dev>>12&0xfff00))
	if err != nil {
		b.Fatal(err)
	}
	return number(b, strings.Fields(string(stat))[6]) * 512 // sectors
}

func number(b *testing.B, text string) int {
	b.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		b.Fatal(err)
	}
	return n
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
