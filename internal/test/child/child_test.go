package child_test

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"sluice/internal/test/child"
)

func TestReady(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		script string
		want   string // part of the error; "" for no error
		exited bool
	}{
		"a program that prints":       {"echo starting; echo ready at 7; exec sleep 60", "", false},
		"a program that ends":         {"echo no disk; exit 3", "exit status 3; it printed:\nno disk", true},
		"a program that is not ready": {"echo waiting; exec sleep 60", "not ready within 1s: not yet; it printed:\nwaiting", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := child.StartTied("sh", "-c", tt.script)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Kill)
			err = p.Ready(t.Context(), time.Second, func(context.Context) error {
				if strings.Contains(p.Log(), "ready at 7\n") {
					return nil
				}
				return errors.New("not yet")
			})
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) || errors.Is(err, child.ErrExited) != tt.exited {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestReadyTextAndKill(t *testing.T) {
	t.Parallel()
	p, err := child.Start(exec.Command("sh", "-c", "echo listens on 127.0.0.1:7; exec sleep 60"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.ReadyText(t.Context(), `listens on (\S+)\n`); err != nil || got != "127.0.0.1:7" {
		t.Errorf("got %q, %v", got, err)
	}
	p.Kill()
	p.Kill() // a second call has no effect
	if err := p.Wait(); err == nil || p.Log() != "listens on 127.0.0.1:7\n" {
		t.Errorf("Wait returns %v after it printed %q", err, p.Log())
	}
}
