// Package index finds entities by the values of their attributes. It defines the declarations
// of indexed attributes, their states, and the keys by which values are sorted.
package index

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/pkg/record"
)

const (
	// Places is how many indexes a type can have in a workspace.
	Places = 4

	// MaxDeclarations is the maximum number of declarations in a service. Every process keeps all
	// of them in memory.
	MaxDeclarations = 1000

	maxWorkspace = 64

	// maxNames bounds the names of an index of several attributes: with the code of a value, they are
	// in a partition key, which has at most 2,048 bytes.
	maxNames = 800
)

// ValueType is the JSON type of the values that are indexed. Values of other types are left out.
type ValueType string

const (
	Text    ValueType = "text"
	Number  ValueType = "number"
	Boolean ValueType = "boolean"
)

// State is a step in the life of a declaration, which goes through the states in this order.
type State string

const (
	Writing  State = "writing"  // every process adds keys to what it writes
	Building State = "building" // entities that existed before the declaration get their keys
	Ready    State = "ready"    // queries can use the index
	Removing State = "removing" // no process adds keys; the existing keys are removed, and then the declaration
)

// Declaration says that a workspace indexes attributes of one entity type, or its events by name
// (see EventNames). No two declarations of
// a type have the same attributes in the same order.
type Declaration struct {
	Workspace string `json:"workspace"`
	Type      string `json:"type,omitzero"` // "" for events
	Fields    Fields `json:"attributes"`
	Place     int    `json:"place"` // 1 to Places; unique among the declarations of a type in a workspace
	State     State  `json:"state"`
	Build     Build  `json:"build"`
	Rate      int    `json:"rate,omitzero"` // how many records a second a Builder reads; 0 for DefaultRate
	Revision  int64  `json:"revision"`      // increases with every change; see NextRevision
}

// Build is an index build, which gives keys to entities that existed before the declaration. A
// removal uses only Seen and Checkpoint.
type Build struct {
	Seen       record.Time   `json:"seen,omitzero"`       // when a Builder first saw the state Writing or Removing
	Checkpoint record.Cursor `json:"checkpoint,omitzero"` // where the next step starts; "" before the first and after the last
	Expected   int64         `json:"expected"`            // approximate number of entities of the type
	Read       int64         `json:"read"`                // Indexed + Absent + Unfit
	Indexed    int64         `json:"indexed"`             // entities with a key
	Absent     int64         `json:"absent,omitzero"`     // entities that lack an attribute
	Unfit      int64         `json:"unfit,omitzero"`      // entities with values that cannot be indexed
}

// Begun reports whether a Builder has begun to add or to remove keys. Before that, it waits for TakeUp.
func (d Declaration) Begun() bool { return d.State == Building || d.Build.Checkpoint != "" }

// Done returns the completed share of the build, from 0 to 1.
func (d Declaration) Done() float64 {
	switch {
	case d.State == Ready:
		return 1
	case d.State != Building || d.Build.Expected == 0:
		return 0
	}
	return min(float64(d.Build.Read)/float64(d.Build.Expected), 0.99)
}

// Name returns a name for messages and for the audit trail, such as person.email, order.status+total
// or, of events, "events by name". That one has no dot, so no index of entities has it. Two of those
// can have the same name only if a type or an attribute contains a dot or a plus sign.
func (d Declaration) Name() string {
	names := strings.Join(d.Fields.Names(), "+")
	if d.Type == "" {
		return "events by " + names
	}
	return d.Type + "." + names
}

// On reports whether d is the index of these attributes, in this order.
func (d Declaration) On(attributes []string) bool { return slices.Equal(d.Fields.Names(), attributes) }

// ID identifies the place of d, which only one declaration can have at a time.
func (d Declaration) ID() string {
	return fmt.Sprintf("%s#%d#%s", d.Workspace, d.Place, d.Type)
}

// Compare orders declarations by workspace, type and attributes.
func (d Declaration) Compare(e Declaration) int {
	return cmp.Or(cmp.Compare(d.Workspace, e.Workspace), cmp.Compare(d.Type, e.Type), slices.Compare(d.Fields.Names(), e.Fields.Names()))
}

// Written reports whether writers add keys for d.
func (d Declaration) Written() bool { return d.State != Removing }

// Partition names the partition that holds the keys of d with a Lead, and those of no other
// declaration. What precedes the Lead begins with the lengths of the names, and a workspace cannot
// contain '#'.
func (d Declaration) Partition(lead string) string {
	if names := d.Fields.Names(); len(names) == 1 {
		return fmt.Sprintf("%s#%d#%s#%s", d.Workspace, len(d.Type), d.Type, names[0])
	}
	lengths := []string{strconv.Itoa(len(d.Type))}
	for _, name := range d.Fields.Names() {
		lengths = append(lengths, strconv.Itoa(len(name)))
	}
	names := append([]string{d.Type}, d.Fields.Names()...)
	return fmt.Sprintf("%s#%s#%s#%s", d.Workspace, strings.Join(lengths, ","), strings.Join(names, "#"), base64.RawURLEncoding.EncodeToString([]byte(lead)))
}

// Owns reports whether a partition has keys of d.
func (d Declaration) Owns(partition string) bool {
	own := d.Partition("")
	return partition == own || len(d.Fields.List()) > 1 && strings.HasPrefix(partition, own)
}

// Validate checks a new declaration. The error says what to change.
func (d Declaration) Validate() error {
	switch {
	case d.Workspace == "" || len(d.Workspace) > maxWorkspace || strings.Contains(d.Workspace, "#"):
		return fmt.Errorf("%q is not a workspace", d.Workspace)
	case d.OfEvents() && d.Fields != EventNames(d.Workspace).Fields:
		return fmt.Errorf("events can be indexed by name only, not by %s", strings.Join(d.Fields.Names(), " and "))
	case d.OfEvents():
		return nil
	case record.CheckName(d.Type) != nil:
		return fmt.Errorf("the type %w", record.CheckName(d.Type))
	case len(d.Fields.List()) == 0:
		return fmt.Errorf("the attribute %w", record.CheckName(""))
	}
	used, size := make(map[string]bool), len(d.Type)
	for _, f := range d.Fields.List() {
		if err := f.validate(); err != nil {
			return err
		}
		if used[f.Name] {
			return fmt.Errorf("the attribute %q is given twice", f.Name)
		}
		used[f.Name], size = true, size+len(f.Name)
	}
	if len(used) > 1 && size > maxNames {
		return fmt.Errorf("the names of the type and the attributes have %d bytes; for an index of several attributes, the maximum is %d", size, maxNames)
	}
	return nil
}

// NextRevision returns the Unix time in microseconds, or d.Revision+1 if that is greater. So a
// declaration that is removed and added again does not reuse a revision.
func (d Declaration) NextRevision() int64 { return max(d.Revision+1, time.Now().UnixMicro()) }

// ChangedAt returns when d was changed, by the clock of the process that did so.
func (d Declaration) ChangedAt() time.Time { return time.UnixMicro(d.Revision) }

// ErrChanged means that another process has changed a declaration. Nothing was stored.
var ErrChanged = errors.New("another process has changed the indexed attribute; try again")

// Store keeps declarations. It is safe for concurrent use. After any error but ErrChanged, the
// change may have been stored.
type Store interface {
	// List returns all declarations in the order of Compare. The read is strongly consistent.
	List(ctx context.Context) ([]Declaration, error)

	// Add stores a new declaration and returns it with its first revision. others must list
	// all other declarations of the same workspace and type, in the order of Compare. Add returns
	// ErrChanged if the stored declarations differ from others.
	Add(ctx context.Context, d Declaration, others []Declaration) (Declaration, error)

	// Put stores d and returns it with its next revision. It returns ErrChanged unless the
	// declaration stored at d's place has the same revision; 0 means that none is stored there.
	Put(ctx context.Context, d Declaration) (Declaration, error)

	// Remove removes d, or returns ErrChanged as Put does. It also succeeds if nothing is stored
	// at d's place.
	Remove(ctx context.Context, d Declaration) error
}
