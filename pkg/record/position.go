package record

import (
	"cmp"
	"fmt"
	"strings"
)

// Position is where a record stands in a list that is ordered by time and then by the bytes of the id.
type Position struct {
	At Time   `json:"at"`
	ID string `json:"id"`
}

// Compare orders positions as [cmp.Compare] does.
func (p Position) Compare(q Position) int {
	return cmp.Or(p.At.Compare(q.At), cmp.Compare(p.ID, q.ID))
}

// String returns the time in fixed width, '#' and the id. Stores use the text as a key,
// because it sorts as positions do.
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

// Bounds returns two texts. The positions between them are exactly those with a time in
// [from, to) that follow the cursor, the text of a position, in the direction of the list. A nil
// time or an empty text means no bound. No position equals a bound, so bounds may be inclusive or
// exclusive. If there are no such positions, low may be greater than high. The error is ErrCursor.
func Bounds(from, to *Time, cursor Cursor, ascending bool) (low, high string, err error) {
	if from != nil {
		low = from.String() // sorts before all positions with this time
	}
	if to != nil {
		high = to.String()
	}
	if cursor == "" {
		return low, high, nil
	}
	text := string(cursor)
	if p, err := ParsePosition(text); err != nil || p.String() != text || CheckID(p.ID) != nil {
		return "", "", ErrCursor
	}
	if ascending {
		return max(low, text+"\x00"), high, nil
	}
	// This text sorts just before the position: the last character is lowered by one, and \x7f
	// follows, which sorts after every character of an id.
	last := len(text) - 1
	below := text[:last] + string(text[last]-1) + "\x7f"
	if high == "" || below < high {
		high = below
	}
	return low, high, nil
}
