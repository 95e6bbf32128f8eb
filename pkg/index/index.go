// Package index finds entities by the values of their attributes. It defines the declarations
// of indexed attributes, their states, and the keys by which values are sorted.
package index

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice/pkg/record"
)

const (
	// Places is how many attributes of a type can be indexed in a workspace.
	Places = 4

	// MaxDeclarations is the maximum number of declarations in a service. Every process keeps all
	// of them in memory.
	MaxDeclarations = 1000

	maxWorkspace = 64
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

// Declaration says that a workspace indexes an attribute of one entity type.
type Declaration struct {
	Workspace string    `json:"workspace"`
	Type      string    `json:"type"`
	Attribute string    `json:"attribute"` // name of a member, not a path
	ValueType ValueType `json:"value_type"`
	Place     int       `json:"place"` // 1 to Places; unique among the declarations of a type in a workspace
	State     State     `json:"state"`
	Build     Build     `json:"build"`
	Revision  int64     `json:"revision"` // increases with every change; see NextRevision
}

// Build is an index build, which gives keys to entities that existed before the declaration.
type Build struct {
	Checkpoint record.Cursor `json:"checkpoint,omitzero"` // where the next step starts; "" before the first and after the last
	Expected   int64         `json:"expected"`            // approximate number of entities of the type
	Read       int64         `json:"read"`                // Indexed + Absent + Unfit
	Indexed    int64         `json:"indexed"`             // entities with a key
	Absent     int64         `json:"absent,omitzero"`     // entities without the attribute
	Unfit      int64         `json:"unfit,omitzero"`      // entities with a value that cannot be indexed
}

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

// Name returns the attribute's name for messages, such as person.email.
func (d Declaration) Name() string { return fmt.Sprintf("%s.%s", d.Type, d.Attribute) }

// ID identifies the place of d, which only one declaration can have at a time.
func (d Declaration) ID() string {
	return fmt.Sprintf("%s#%d#%s", d.Workspace, d.Place, d.Type)
}

// Compare orders declarations by workspace, type and attribute.
func (d Declaration) Compare(e Declaration) int {
	return cmp.Or(cmp.Compare(d.Workspace, e.Workspace), cmp.Compare(d.Type, e.Type), cmp.Compare(d.Attribute, e.Attribute))
}

// Written reports whether writers add keys for d.
func (d Declaration) Written() bool { return d.State != Removing }

// Partition names the partition that holds all keys of d. The name is unique, because a
// workspace cannot contain '#'.
func (d Declaration) Partition() string {
	return fmt.Sprintf("%s#%d#%s#%s", d.Workspace, len(d.Type), d.Type, d.Attribute)
}

// Validate checks a new declaration. The error says what to change.
func (d Declaration) Validate() error {
	switch {
	case d.Workspace == "" || len(d.Workspace) > maxWorkspace || strings.Contains(d.Workspace, "#"):
		return fmt.Errorf("%q is not a workspace", d.Workspace)
	case record.CheckName(d.Type) != nil:
		return fmt.Errorf("the type %w", record.CheckName(d.Type))
	case record.CheckName(d.Attribute) != nil:
		return fmt.Errorf("the attribute %w", record.CheckName(d.Attribute))
	case d.ValueType != Text && d.ValueType != Number && d.ValueType != Boolean:
		return fmt.Errorf("the type of its values must be %s, %s or %s, not %q", Text, Number, Boolean, d.ValueType)
	}
	if _, op := Cut(d.Attribute); op != "" {
		return fmt.Errorf("the attribute must not end in [%s], because that is an operator of queries", op)
	}
	return nil
}

// NextRevision returns the Unix time in microseconds, or d.Revision+1 if that is greater. So a
// declaration that is removed and added again does not reuse a revision.
func (d Declaration) NextRevision() int64 { return max(d.Revision+1, time.Now().UnixMicro()) }

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
