package record

import (
	"cmp"
	"fmt"
	"strings"
)

// Position is a place in a list in order of time, then of the bytes of the id.
type Position struct {
	At Time   `json:"at"`
	ID string `json:"id"`
}

// Compare returns -1 if p is before q in ascending order, 0 if they are equal, and +1
// if p is after q.
func (p Position) Compare(q Position) int {
	return cmp.Or(p.At.Compare(q.At), cmp.Compare(p.ID, q.ID))
}

// String returns the time with a fixed width, '#' and the id. These texts sort in the
// order of positions, so stores use them as keys.
func (p Position) String() string { return p.At.String() + "#" + p.ID }

// ParsePosition parses the result of String.
func ParsePosition(text string) (Position, error) {
	at, id, _ := strings.Cut(text, "#")
	t, err := ParseTime(at)
	if err != nil {
		return Position{}, fmt.Errorf("position %q: %w", text, err)
	}
	return Position{At: t, ID: id}, nil
}

// Bounds returns the bounds of a part of a list: the positions with from <= time < to that
// follow after in the direction of the list. A position is in the part if its text is
// between low and high. nil and "" mean no bound. No position equals a bound, so it does not
// matter whether they are inclusive. If low is greater than high, the part is empty.
func Bounds(from, to *Time, after *Position, ascending bool) (low, high string) {
	if from != nil {
		low = from.String() // prefix of all positions at this time, so it sorts before them
	}
	if to != nil {
		high = to.String()
	}
	if after == nil {
		return low, high
	}
	text := after.String()
	if ascending {
		return max(low, text+"\x00"), high
	}
	// Make a text that sorts just before this position: decrease the last character by
	// one and append \x7f, which is greater than all characters of ids. All earlier
	// positions are also before this text.
	last := len(text) - 1
	below := text[:last] + string(text[last]-1) + "\x7f"
	if high == "" || below < high {
		high = below
	}
	return low, high
}
