// Package access says who may use which route of the API: keys, what each of
// them opens, and whether the text that a request brings is one.
//
// A key is shown to its owner once, as the text slc_<id>_<secret>. What is kept
// of it is a [Key], with a hash of the secret: the table of keys lets nobody in.
package access

import "slices"

// Scope is what a key must have been given for a route to let it in.
type Scope string

// The scopes. The zero value is none of them: a route must declare its own.
const (
	Public    Scope = "public"    // needs no key, and no key is given it
	Import    Scope = "import"    // puts records in
	Export    Scope = "export"    // gets records out
	Dashboard Scope = "dashboard" // export jobs and usage
)

// Scopes are those that a key can be given, sorted.
func Scopes() []Scope { return []Scope{Dashboard, Export, Import} }

// DefaultWorkspace owns every record while access keys are off, and those of
// keys that were given no other.
const DefaultWorkspace = "default"

// maxWorkspaceLength is the most characters of a workspace's name, at least 1.
const maxWorkspaceLength = 64

// CheckWorkspace says what is wrong with the name of a workspace, or "" if it
// may be used. Stores put a '#' behind it in the keys of their items, so that it
// must have none.
func CheckWorkspace(name string) string {
	if name == "" || len(name) > maxWorkspaceLength || !consistsOf(name, isWorkspaceChar) {
		return "must be 1 to 64 of the characters A-Z a-z 0-9 . _ -"
	}
	return ""
}

func isWorkspaceChar(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'
}

func consistsOf(s string, allowed func(c byte) bool) bool {
	return !slices.ContainsFunc([]byte(s), func(c byte) bool { return !allowed(c) })
}
