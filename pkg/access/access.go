// Package access decides who may use which route of the API: API keys, what
// each of them permits, and whether a token that a request carries is valid.
//
// A key is shown to its owner once, as the token slc_<id>_<secret>. Stores hold
// a [Key], which has only a hash of the secret: nobody can sign in with what
// they read there.
package access

import (
	"errors"
	"regexp"
)

// Scope is what a key must have been given to use a route.
type Scope string

// The scopes. The zero value is not a scope: every route must declare its own.
const (
	Public    Scope = "public"    // routes that need no key; no key has it
	Import    Scope = "import"    // puts records in
	Export    Scope = "export"    // gets records out
	Dashboard Scope = "dashboard" // export jobs and usage
)

// Scopes returns the scopes that a key can have, sorted.
func Scopes() []Scope { return []Scope{Dashboard, Export, Import} }

// DefaultWorkspace owns every record while API keys are off, and the records of
// keys that name no other workspace.
const DefaultWorkspace = "default"

var workspacePattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// CheckWorkspace returns an error that says what the name of a workspace must
// be, or nil if name is valid. Stores append '#' to the name in the keys of
// their items, so it must not contain one.
func CheckWorkspace(name string) error {
	if !workspacePattern.MatchString(name) {
		return errors.New("must be 1 to 64 of the characters A-Z a-z 0-9 . _ -")
	}
	return nil
}
