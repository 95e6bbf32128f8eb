package localserver

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
)

// newLogger writes every line in format, "json" or "text". If format is "", it writes, as text, only
// warnings and errors, which the lines of requests with status 429 or 5xx are, and bounds them.
func newLogger(format string, w io.Writer) (*slog.Logger, error) {
	switch format {
	case "":
		return slog.New(boundedHandler{slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}), new(lineCount)}), nil
	case "text":
		return slog.New(slog.NewTextHandler(w, nil)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, nil)), nil
	default:
		return nil, fmt.Errorf("--log=%q must be json or text", format)
	}
}

// maxLines is how many lines of one level a boundedHandler writes in a second.
const maxLines = 100

// A boundedHandler leaves out lines, so that nobody can fill the disk by sending requests that are
// refused.
type boundedHandler struct {
	slog.Handler
	count *lineCount // shared with the handlers that WithAttrs and WithGroup return
}

type lineCount struct {
	mu     sync.Mutex
	second int64 // the latest in which there were lines, since the epoch
	lines  map[slog.Level]int
}

// add counts a line and returns its number within its second and level.
func (c *lineCount) add(second int64, level slog.Level) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if second > c.second || c.lines == nil {
		c.second, c.lines = second, make(map[slog.Level]int)
	}
	c.lines[level]++
	return c.lines[level]
}

func (h boundedHandler) Handle(ctx context.Context, r slog.Record) error {
	switch n := h.count.add(r.Time.Unix(), r.Level); {
	case n <= maxLines:
		return h.Handler.Handle(ctx, r)
	case n == maxLines+1:
		left := slog.NewRecord(r.Time, r.Level, "too many lines: the others of this second are left out, as always without --log", 0)
		left.AddAttrs(slog.Int("most", maxLines))
		return h.Handler.Handle(ctx, left)
	default:
		return nil
	}
}

func (h boundedHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return boundedHandler{h.Handler.WithAttrs(attrs), h.count}
}

func (h boundedHandler) WithGroup(name string) slog.Handler {
	return boundedHandler{h.Handler.WithGroup(name), h.count}
}
