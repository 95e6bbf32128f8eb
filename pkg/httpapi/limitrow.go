package httpapi

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"sluice/pkg/access"
	"sluice/pkg/audit"
	"sluice/pkg/ratelimit"
	"sluice/pkg/record"
)

func listLimit(s *service, r *request) (response, error) {
	if err := parseQuery(r).err(); err != nil {
		return response{}, err
	}
	if err := r.require(access.Operator); err != nil {
		return response{}, err
	}
	rows, err := s.rows(r)
	return response{status: http.StatusOK, body: page[ratelimit.Row]{data: rows}}, err
}

func setLimit(s *service, r *request) (response, error) {
	if err := r.require(access.Operator); err != nil {
		return response{}, err
	}
	row, err := decodeRow(r.body)
	if err == nil {
		row, err = s.newRow(row)
	}
	if err != nil {
		return response{}, err
	}
	old, err := s.oldRow(r, row.Name())
	if err != nil {
		return response{}, err
	}
	err = s.audited(r, audit.Record{Of: row.Name()}, old, func() (any, error) {
		return row, s.stores.LimitRows.Put(r.Context(), row)
	})
	return response{status: http.StatusOK, body: row}, err
}

// newRow returns the row that a client's JSON stands for. Every error has the code Invalid.
func (s *service) newRow(row ratelimit.Row) (_ ratelimit.Row, err error) {
	err = row.CheckSent()
	switch {
	case err != nil:
	case row.KeyID != "":
		err = access.CheckID(row.KeyID)
	case row.CIDR.IsValid():
		row.CIDR, err = ratelimit.ParseCIDR(row.CIDR.String(), s.IPv6Prefix)
	}
	if err == nil {
		row, err = ratelimit.NewRow(row, s.Now())
	}
	if err == nil {
		_, err = row.Limits().Check(0)
	}
	if err != nil {
		err = &record.Error{Code: record.Invalid, Detail: err.Error()}
	}
	return row, err
}

// decodeRow decodes a row in its own JSON, which follows [ratelimit.Row] whatever limits there are.
func decodeRow(body []byte) (row ratelimit.Row, err error) {
	err = json.Unmarshal(body, &row, json.RejectUnknownMembers(true))
	if wrong, ok := errors.AsType[*json.SemanticError](err); ok {
		field := strings.TrimPrefix(string(wrong.JSONPointer), "/")
		if errors.Is(err, json.ErrUnknownName) {
			return row, record.Fields{{Field: record.Shorten(field), Detail: "is not a field here"}}.Err()
		}
		return row, record.Fields{{Field: record.Shorten(field), Detail: "has a wrong value"}}.Err()
	}
	if err != nil {
		return row, &record.Error{Code: record.Malformed, Detail: "the text is not one well-formed JSON object"}
	}
	return row, nil
}

// oldRow returns the row of that name, or nil.
func (s *service) oldRow(r *request, name string) (any, error) {
	rows, err := s.rows(r)
	if i := slices.IndexFunc(rows, func(row ratelimit.Row) bool { return row.Name() == name }); err == nil && i >= 0 {
		return rows[i], nil
	}
	return nil, err
}

// removedRow is the response to a removal: what the row was for.
type removedRow struct {
	CIDR  netip.Prefix `json:"cidr,omitzero"`
	KeyID string       `json:"key_id,omitzero"`
	Plan  string       `json:"plan,omitzero"`
}

func removeLimit(s *service, r *request) (response, error) {
	if err := r.require(access.Operator); err != nil {
		return response{}, err
	}
	row, err := decodeRow(r.body)
	if err == nil {
		row = ratelimit.Row{CIDR: row.CIDR, KeyID: row.KeyID, Plan: row.Plan, Action: ratelimit.ActionLimit}
		if wrong := row.Validate(); wrong != nil {
			err = &record.Error{Code: record.Invalid, Detail: wrong.Error()}
		}
	}
	if err == nil && row.Plan != "" {
		err = access.CheckUnused(r.Context(), s.stores.Keys, row.Plan)
	}
	if err != nil {
		return response{}, err
	}
	old, err := s.oldRow(r, row.Name())
	if err == nil && old == nil {
		err = ratelimit.ErrNoRow
	}
	if err != nil {
		return response{}, err
	}
	err = s.audited(r, audit.Record{Of: row.Name()}, old, func() (any, error) {
		return nil, s.stores.LimitRows.Remove(r.Context(), row.Name())
	})
	return response{status: http.StatusOK, body: removedRow{row.CIDR, row.KeyID, row.Plan}}, err
}
