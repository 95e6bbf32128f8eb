package httpapi

import (
	"cmp"
	"errors"
	"net/http"
	"slices"

	"sluice/pkg/access"
	"sluice/pkg/audit"
	"sluice/pkg/index"
	"sluice/pkg/record"
)

// maxIndexes is how many indexes a workspace may have whose key lacks the scope operator, because all
// workspaces together have index.MaxDeclarations.
const maxIndexes = 100

func createEntityIndex(s *service, r *request) (response, error) {
	d := index.Declaration{}
	resource := record.Entity
	var attributes []index.Field
	err := r.decode(record.Decoders{
		"workspace":  record.Text(&d.Workspace, access.CheckWorkspace),
		"resource":   record.Text(&resource, checkResource),
		"type":       record.Text(&d.Type, record.CheckName),
		"attributes": indexFields(&attributes),
	})
	if err == nil {
		err = r.own(&d, resource, attributes)
	}
	if err == nil {
		if wrong := d.Validate(); wrong != nil {
			err = &record.Error{Code: record.Invalid, Detail: wrong.Error()}
		}
	}
	if err != nil {
		return response{}, err
	}
	old, err := s.declaration(r, d)
	if err != nil {
		return response{}, err
	}
	status := http.StatusCreated
	if old != nil {
		status = http.StatusOK
	}
	err = s.audited(r, audit.Record{Workspace: d.Workspace, Of: "index:" + d.Name()}, shownIndex(old), func() (any, error) {
		d, err = index.Add(r.Context(), s.stores.Declarations, d)
		return entityIndex(d), err
	})
	return response{status: status, body: entityIndex(d)}, err
}

// removeEntityIndex takes what createEntityIndex takes; only the names of the attributes matter.
func removeEntityIndex(s *service, r *request) (response, error) {
	d := index.Declaration{}
	resource := record.Entity
	var names []string
	err := r.decode(record.Decoders{
		"workspace":  record.Text(&d.Workspace, access.CheckWorkspace),
		"resource":   record.Text(&resource, checkResource),
		"type":       record.Text(&d.Type, record.CheckName),
		"attributes": record.Texts(&names, index.MaxFields, record.CheckName),
	})
	var attributes []index.Field
	for _, name := range names {
		attributes = append(attributes, index.Field{Name: name, ValueType: index.Text})
	}
	if err == nil {
		err = r.own(&d, resource, attributes)
	}
	if err != nil {
		return response{}, err
	}
	old, err := s.declaration(r, d)
	if err == nil && old == nil {
		err = index.ErrNotFound
	}
	if err != nil {
		return response{}, err
	}
	err = s.audited(r, audit.Record{Workspace: d.Workspace, Of: "index:" + d.Name()}, shownIndex(old), func() (any, error) {
		d, err = index.Remove(r.Context(), s.stores.Declarations, d.Workspace, d.Type, d.Fields.Names()...)
		return entityIndex(d), err
	})
	return response{status: http.StatusOK, body: entityIndex(d)}, err
}

func checkResource(text string) error {
	if text != string(record.Entity) && text != string(record.Event) {
		return errors.New("must be entity or event")
	}
	return nil
}

// own completes d, and checks that the caller manages its workspace.
func (r *request) own(d *index.Declaration, resource record.Resource, attributes []index.Field) (err error) {
	if d.Workspace, err = r.managed(cmp.Or(d.Workspace, r.workspace), true); err != nil {
		return err
	}
	if resource == record.Event {
		if d.Type != "" || len(attributes) > 0 {
			return record.Fields{{Field: "resource", Detail: "event has an index by name only, without type and attributes"}}.Err()
		}
		*d = index.EventNames(d.Workspace)
		return nil
	}
	var wrong record.Fields
	if d.Type == "" {
		wrong.Add("type", "is required: the type of the entities")
	}
	if len(attributes) == 0 {
		wrong.Add("attributes", "is required")
	}
	copy(d.Fields[:], attributes)
	return wrong.Err()
}

// indexFields decodes an array of attributes, each with a name and perhaps what its values are.
func indexFields(into *[]index.Field) record.Decoder {
	return func(value []byte) error {
		var elements [][]byte
		if err := record.Array(&elements, index.MaxFields)(value); err != nil {
			return err
		}
		for _, e := range elements {
			f := index.Field{ValueType: index.Text}
			err := record.Decoders{
				"name": record.Text(&f.Name, record.CheckName), "value_type": record.Text(&f.ValueType, nil), "fold": record.Boolean(&f.Fold),
			}.Decode(e)
			if err != nil {
				return err
			}
			*into = append(*into, f)
		}
		return nil
	}
}

// declaration returns the stored declaration of an index on the same attributes, or nil. It fails if
// there is none, and the caller may not add another to the workspace.
func (s *service) declaration(r *request, d index.Declaration) (*index.Declaration, error) {
	all, err := s.stores.Declarations.List(r.Context())
	if err != nil {
		return nil, err
	}
	own := index.NewSet(all).In(d.Workspace)
	i := slices.IndexFunc(own, func(other index.Declaration) bool { return other.Type == d.Type && other.On(d.Fields.Names()) })
	switch {
	case i >= 0:
		return &own[i], nil
	case len(own) >= maxIndexes && !r.key.Has(access.Operator):
		return nil, &apiError{status: http.StatusConflict, code: "too_many_indexes", detail: "the workspace already has 100 indexes, which is the maximum without the scope operator"}
	}
	return nil, nil
}

func shownIndex(d *index.Declaration) any {
	if d == nil {
		return nil
	}
	return entityIndex(*d)
}
