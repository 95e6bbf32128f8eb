package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/spf13/cobra"

	"sluice/pkg/access"
	"sluice/pkg/audit"
	"sluice/pkg/bolt"
	"sluice/pkg/dynamo"
	"sluice/pkg/ratelimit"
)

type keyStorage = storage[access.Manager]

// keysReader opens the API keys for a command that manages something else.
type keysReader = beside[access.Manager]

func keysBeside() *keysReader {
	return &keysReader{flag: "keys-table", variable: "KEYS_TABLE", openDir: openKeysDir, openTable: openKeysTable}
}

func openKeysDir(dir string) (access.Manager, error) { return bolt.OpenKeys(dir) }

func openKeysTable(client *dynamodb.Client, name string) (access.Manager, error) {
	return dynamo.NewKeys(client, name)
}

func keysCommand(getenv func(string) string) *cobra.Command {
	o := &keyStorage{getenv: getenv, what: "API keys", variable: "KEYS_TABLE", logicalID: "KeysTable", openDir: openKeysDir, openTable: openKeysTable}
	rows := &beside[ratelimit.RowManager]{flag: "limits-table", variable: "LIMITS_TABLE", openDir: openLimitsDir, openTable: openLimitsTable}
	cmd := o.command("keys", "Create, list and revoke API keys",
		`Create, list and revoke the API keys that a service with AUTH_MODE=api-key
requires. Only a hash of a key is stored: the key is shown once, when it is
created.`, createKeyCommand(o, rows), listKeysCommand(o), revokeKeyCommand(o), setPlanCommand(o, rows))
	rows.addFlag(cmd, getenv, "rows of limits, to check that a plan exists")
	return cmd
}

func createKeyCommand(o *keyStorage, rows *rowsReader) *cobra.Command {
	var k access.Key
	var scopes, from []string
	var expiresIn string
	cmd := &cobra.Command{
		Use:   "create --scope SCOPE [--scope SCOPE] [--workspace NAME] [--name TEXT] [--from CIDR] [--plan NAME] [--expires-in TIME]",
		Short: "Create an API key and print it",
		Long: `Create an API key and print it. It cannot be shown again. The command writes only
the key to standard output, and everything else to standard error.

The scope import allows writing records. Export allows reading records, in lists and in
export jobs. Dashboard allows signing in to the dashboard and reading one's own usage;
operator, beside dashboard, the usage of every address and key. Erase, beside import,
allows erasing an entity with its events. Admin allows managing the keys and indexes of the
workspace over HTTP and, with operator, everything, where ADMIN_ROUTES is on. A key gives access only to the records of its
workspace. A workspace exists as soon as a key names it.

With --from, the service accepts the key only from addresses in these blocks. With
--plan, the service counts the requests with the key by the key, and not by their
addresses, under the limits of a plan that "sluice plans set" has made.`,
		Example: `  sluice keys create --scope import --scope export
  KEY=$(sluice keys create --scope export --workspace acme --name "nightly report" --expires-in 90d)
  sluice keys create --scope import --from 192.0.2.0/24 --from 2001:db8::/48
  sluice keys create --table sluice-KeysTable-1ABCDEF --scope dashboard --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := requireValues(cmd, "workspace", "expires-in", "from", "plan"); err != nil {
				return err
			}
			now := time.Now()
			for _, scope := range scopes {
				k.Scopes = append(k.Scopes, access.Scope(scope))
			}
			for _, text := range from {
				const longest = 128 // any prefix length, because a client's whole address is compared
				block, err := ratelimit.ParseCIDR(text, longest)
				if err != nil {
					return usageError("--from: %w", err)
				}
				k.From = append(k.From, block)
			}
			if k.ExpiresAt, err = parseExpiry(expiresIn, now); err != nil {
				return err
			}
			return printNewKey(cmd, o, rows, k, now)
		},
	}
	cmd.Flags().StringSliceVar(&scopes, "scope", nil, "scope of the key: import, export, dashboard, erase, admin or operator; may be repeated")
	cmd.Flags().StringVar(&k.Workspace, "workspace", access.DefaultWorkspace, "workspace whose records the key can access")
	cmd.Flags().StringVar(&k.Name, "name", "", "text that says what the key is for")
	cmd.Flags().StringSliceVar(&from, "from", nil, "CIDR block or address from which the key is accepted; may be repeated (default: any address)")
	cmd.Flags().StringVar(&k.Plan, "plan", "", "plan that sets the limits of the key (default: none, its requests are counted by address)")
	cmd.Flags().StringVar(&expiresIn, "expires-in", "", "how long the key is valid, such as 12h or 90d (default: until it is revoked)")
	completeValues(cmd, "scope", access.Scopes()...)
	return cmd
}

// printNewKey creates a key with the properties in k, stores it and prints it.
func printNewKey(cmd *cobra.Command, o *keyStorage, rows *rowsReader, k access.Key, now time.Time) error {
	k, token, err := access.New(k, now)
	if err != nil {
		return usageError("%w", err)
	}
	s, where, err := o.openNew(cmd)
	if err != nil {
		return err
	}
	if err := checkPlanExists(cmd, o, rows, k.Plan); err != nil {
		return err
	}
	shown := describe(k, now)
	err = audited(cmd, o, audit.Record{Action: "create-api-key", Workspace: k.Workspace, Of: ratelimit.KeyIdentity(k.ID)}, nil, func() (any, error) {
		return shown, s.Create(cmd.Context(), k)
	})
	if err != nil {
		return fmt.Errorf("the key was not created in %s: %w", where, err)
	}
	if o.json {
		shown.Key = token.Reveal()
		return printJSON(cmd.OutOrStdout(), shown)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), `The key %s is in %s: %s in the workspace %s, from: %s, plan: %s, expires: %s.
Send it as "Authorization: Bearer ...". It is shown only once:

`, k.ID, where, shown.scopes(), k.Workspace, shown.from(), cmp.Or(k.Plan, "none"), shown.expires())
	fmt.Fprintln(cmd.OutOrStdout(), token.Reveal())
	return nil
}

type rowsReader = beside[ratelimit.RowManager]

// checkPlanExists returns an error if there is no such plan. It cannot tell if it does not know the
// table of the plans.
func checkPlanExists(cmd *cobra.Command, o *keyStorage, rows *rowsReader, plan string) error {
	if plan == "" {
		return nil
	}
	s, known, err := openBeside(cmd, o, rows)
	if err != nil {
		return err
	}
	if !known {
		fmt.Fprintln(cmd.ErrOrStderr(), "Warning: without --limits-table, it is unknown whether there is such a plan.")
		return nil
	}
	all, err := s.List(cmd.Context())
	if _, invalid := errors.AsType[ratelimit.InvalidRows](err); err != nil && !invalid {
		return fmt.Errorf("the plans cannot be read: %w", err)
	}
	if access.CheckPlanIn(all, plan) != nil {
		return usageError("there is no plan %q; \"sluice plans set\" makes one", plan)
	}
	noteThatPlansNeedKeys(cmd, o.getenv, o.dynamodb != "" || o.inTable(cmd))
	return nil
}

func setPlanCommand(o *keyStorage, rows *rowsReader) *cobra.Command {
	var none bool
	cmd := &cobra.Command{
		Use:   "set-plan ID PLAN | ID --none",
		Short: "Give a key a plan, or take it away",
		Example: `  sluice keys set-plan 7m3kq2xw9abc pro
  sluice keys set-plan 7m3kq2xw9abc --none`,
		Args: func(_ *cobra.Command, args []string) error {
			if none && len(args) != 1 || !none && len(args) != 2 {
				return errors.New("give the id of a key, as \"sluice keys list\" shows it, and a plan or --none")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			plan := ""
			if !none {
				plan = args[1]
			}
			if err := access.CheckPlan(plan); err != nil || !none && plan == "" {
				return usageError("%q: %w", plan, cmp.Or(err, errors.New("use --none for no plan")))
			}
			return setPlan(cmd, o, rows, args[0], plan)
		},
	}
	cmd.Flags().BoolVar(&none, "none", false, "the key has no plan: its requests are counted by address")
	return cmd
}

func setPlan(cmd *cobra.Command, o *keyStorage, rows *rowsReader, id, plan string) error {
	s, where, err := o.open(cmd)
	if err != nil {
		return err
	}
	if err := checkPlanExists(cmd, o, rows, plan); err != nil {
		return err
	}
	k, err := s.Get(cmd.Context(), id)
	if err == nil {
		err = audited(cmd, o, audit.Record{Action: "set-api-key-plan", Workspace: k.Workspace, Of: ratelimit.KeyIdentity(id)}, describe(k, time.Now()), func() (any, error) {
			k, err = access.SetPlan(cmd.Context(), s, id, plan)
			return describe(k, time.Now()), err
		})
	}
	if errors.Is(err, access.ErrNotFound) {
		return fmt.Errorf("there is no key %q in %s; \"sluice keys list\" shows the keys", id, where)
	}
	if err != nil {
		return fmt.Errorf("the plan of the key %s in %s was not set: %w", id, where, err)
	}
	if o.json {
		return printJSON(cmd.OutOrStdout(), describe(k, time.Now()))
	}
	fmt.Fprintf(cmd.OutOrStdout(), "The key %s has the plan %s. All instances apply it within %d seconds.\n", k.ID, cmp.Or(k.Plan, "none"), access.MaxAge/time.Second)
	return nil
}

func listKeysCommand(o *keyStorage) *cobra.Command {
	var workspace string
	cmd := &cobra.Command{
		Use:   "list [--workspace NAME]",
		Short: "List the keys, oldest first, including revoked keys",
		Example: `  sluice keys list
  sluice keys list --workspace acme --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := requireValues(cmd, "workspace"); err != nil {
				return err
			}
			return listKeys(cmd, o, workspace)
		},
	}
	cmd.Flags().StringVar(&workspace, "workspace", "", "only keys of this workspace")
	return cmd
}

// listKeys prints the keys of all workspaces if workspace is "".
func listKeys(cmd *cobra.Command, o *keyStorage, workspace string) error {
	s, where, err := o.open(cmd)
	if err != nil {
		return err
	}
	keys, err := access.All(cmd.Context(), s, workspace)
	if err != nil {
		return fmt.Errorf("the keys in %s cannot be read: %w", where, err)
	}
	now := time.Now()
	shown := []shownKey{}
	for _, k := range keys {
		shown = append(shown, describe(k, now))
	}
	switch {
	case o.json:
		return printJSON(cmd.OutOrStdout(), shown)
	case len(shown) == 0:
		fmt.Fprintf(cmd.ErrOrStderr(), "There are no keys in %s.\n", where)
		return nil
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSTATUS\tWORKSPACE\tSCOPES\tFROM\tPLAN\tMADE BY\tCREATED\tEXPIRES\tNAME")
	for _, k := range shown {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, k.Status, k.Workspace, k.scopes(), k.from(), cmp.Or(k.Plan, "none"), cmp.Or(k.MadeBy, "-"), k.CreatedAt.Format(time.RFC3339), k.expires(), k.Name)
	}
	return w.Flush()
}

func revokeKeyCommand(o *keyStorage) *cobra.Command {
	var made bool
	cmd := &cobra.Command{
		Use:     "revoke ID [--made]",
		Short:   "Revoke a key permanently",
		Example: `  sluice keys revoke 7m3kq2xw9abc`,
		Args:    oneArg("the id of one key, as \"sluice keys list\" shows it"),
		RunE:    func(cmd *cobra.Command, args []string) error { return revokeKey(cmd, o, args[0], made) },
	}
	cmd.Flags().BoolVar(&made, "made", false, "also revoke the keys that the key made, and that these made")
	return cmd
}

// revokeKey accepts an id or a complete API key.
func revokeKey(cmd *cobra.Command, o *keyStorage, id string, made bool) error {
	if token, ok := access.ParseToken(id); ok {
		id = token.ID
	} else if strings.Contains(id, "_") {
		return usageError("that is not the id of a key; \"sluice keys list\" shows the ids")
	}
	s, where, err := o.open(cmd)
	if err != nil {
		return err
	}
	now := time.Now()
	var shown access.Revocation
	k, err := s.Get(cmd.Context(), id)
	if err == nil {
		err = audited(cmd, o, audit.Record{Action: "revoke-api-key", Workspace: k.Workspace, Of: ratelimit.KeyIdentity(id)}, describe(k, now), func() (any, error) {
			k, others, err := access.Revoke(cmd.Context(), s, id, made, now)
			shown = access.ShowRevoked(k, others, now)
			return shown, err
		})
	}
	if errors.Is(err, access.ErrNotFound) {
		return fmt.Errorf("there is no key %q in %s; \"sluice keys list\" shows the keys", id, where)
	}
	if err != nil {
		return fmt.Errorf("the key %s in %s, or one that it made, may still be valid: %w", id, where, err)
	}
	if o.json {
		return printJSON(cmd.OutOrStdout(), shown)
	}
	what := "The key " + id + " was"
	if len(shown.Made) > 0 {
		what = fmt.Sprintf("The key %s and %d that it made were", id, len(shown.Made))
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s revoked at %s. All instances reject it within %d seconds.\n", what, shown.RevokedAt.Format(time.RFC3339), access.MaxAge/time.Second)
	return nil
}

// parseExpiry returns now plus a lifetime such as 90d, or the zero Time for "". A lifetime is
// a number of days or a string for time.ParseDuration, above 0 and at most 36,500 days.
func parseExpiry(text string, now time.Time) (time.Time, error) {
	const day, most = 24 * time.Hour, 36500
	if text == "" {
		return time.Time{}, nil
	}
	var lifetime time.Duration
	if number, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(number, 10, 32); err == nil && n <= most {
			lifetime = time.Duration(n) * day
		}
	} else {
		lifetime, _ = time.ParseDuration(text)
	}
	if lifetime <= 0 || lifetime > most*day {
		return time.Time{}, usageError("--expires-in %q must be a duration such as 30m, 12h or 90d, at most %dd", text, most)
	}
	return now.Add(lifetime), nil
}

// shownKey prints the fields of a key.
type shownKey struct{ access.Shown }

func describe(k access.Key, now time.Time) shownKey { return shownKey{k.Show(now)} }

func (k shownKey) expires() string {
	if k.ExpiresAt == nil {
		return "never"
	}
	return k.ExpiresAt.Format(time.RFC3339)
}

func (k shownKey) scopes() string { return joined(k.Scopes) }

func (k shownKey) from() string { return cmp.Or(joined(k.From), "anywhere") }

func joined[T any](list []T) string {
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = fmt.Sprint(v)
	}
	return strings.Join(texts, ",")
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
