package index

import (
	"encoding/json"
	"fmt"
	"strings"

	"sluice/pkg/record"
)

// MaxFields is how many attributes one index can cover.
const MaxFields = 3

// Field is an attribute that an index covers.
type Field struct {
	Name      string    `json:"name"` // of a member, not a path
	ValueType ValueType `json:"value_type"`
	Fold      bool      `json:"fold,omitzero"` // texts compare regardless of case, as their Unicode case foldings
}

func (f Field) String() string {
	if f.Fold {
		return fmt.Sprintf("%s (%s, regardless of case)", f.Name, f.ValueType)
	}
	return fmt.Sprintf("%s (%s)", f.Name, f.ValueType)
}

func (f Field) validate() error {
	switch {
	case record.CheckName(f.Name) != nil:
		return fmt.Errorf("the attribute %w", record.CheckName(f.Name))
	case f.ValueType != Text && f.ValueType != Number && f.ValueType != Boolean:
		return fmt.Errorf("the type of its values must be %s, %s or %s, not %q", Text, Number, Boolean, f.ValueType)
	case f.Fold && f.ValueType != Text:
		return fmt.Errorf("only texts compare regardless of case, and %s is a %s", f.Name, f.ValueType)
	}
	if _, op := Cut(f.Name); op != "" {
		return fmt.Errorf("the attribute must not end in [%s], because that is an operator of queries", op)
	}
	return nil
}

// Fields are the attributes that an index covers, in the order in which it sorts. Those without a
// name are unused, and follow the others. Its JSON is an array without the unused ones. It is not a
// slice, so that declarations can be compared.
type Fields [MaxFields]Field

// List returns the fields in use.
func (f Fields) List() []Field {
	n := 0
	for n < len(f) && f[n].Name != "" {
		n++
	}
	return f[:n]
}

// Names returns the names of the attributes.
func (f Fields) Names() (names []string) {
	for _, field := range f.List() {
		names = append(names, field.Name)
	}
	return names
}

// String names the attributes with their types, as messages do.
func (f Fields) String() string {
	var all []string
	for _, field := range f.List() {
		all = append(all, field.String())
	}
	return strings.Join(all, " + ")
}

func (f Fields) MarshalJSON() ([]byte, error) { return json.Marshal(f.List()) }

func (f *Fields) UnmarshalJSON(text []byte) error {
	var list []Field
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	if len(list) > MaxFields {
		return fmt.Errorf("an index of %d attributes; the maximum is %d", len(list), MaxFields)
	}
	*f = Fields{}
	copy(f[:], list)
	return nil
}
