package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/spf13/cobra"

	"sluice"
	"sluice/pkg/access"
	accessbolt "sluice/pkg/access/boltstore"
	accessdynamo "sluice/pkg/access/dynamostore"
	"sluice/pkg/template"
)

// keysTable is the logical id of the table of keys.
const keysTable = "KeysTable"

// keyFlags say where the keys are and how to print.
type keyFlags struct {
	dataDir  string
	dynamodb string
	table    string
	json     bool
}

func keysCommand(getenv func(string) string) *cobra.Command {
	var f keyFlags
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Create, list and revoke access keys",
		Long: `Create, list and revoke the access keys that a service with AUTH_MODE=api-key
asks for. Only a hash of a key is kept: it is shown once, when it is created.

Where the keys are:

  with --table, or KEYS_TABLE      in the DynamoDB table of that name, found by the
                                   AWS configuration of this machine; the stack's
                                   output KeysTableName names a deployment's
  with --dynamodb URL              in a table at that endpoint, as "sluice serve
                                   --dynamodb URL" uses it
  otherwise                        in the data directory of "sluice serve", which
                                   may be running

A change takes effect within 60 seconds everywhere.`,
	}
	cmd.PersistentFlags().StringVar(&f.table, "table", getenv("KEYS_TABLE"), "DynamoDB table of the keys (env KEYS_TABLE)")
	cmd.PersistentFlags().StringVar(&f.dynamodb, "dynamodb", "", "URL of a DynamoDB endpoint, such as DynamoDB Local")
	cmd.PersistentFlags().StringVar(&f.dataDir, "data-dir", cmp.Or(getenv("DATA_DIR"), defaultDataDir), "data directory of sluice serve (env DATA_DIR)")
	cmd.PersistentFlags().BoolVar(&f.json, "json", false, "print JSON")
	// run opens the store for a command.
	run := func(command func(cmd *cobra.Command, args []string, s access.Manager, where string) error) func(*cobra.Command, []string) error {
		return func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("data-dir") {
				if cmd.Flags().Changed("table") || f.dynamodb != "" {
					return usageError("keys are in a data directory or in DynamoDB: give --data-dir, or --dynamodb and --table")
				}
				f.table = ""
			}
			s, where, err := f.open(cmd.Context(), getenv)
			if err != nil {
				return err
			}
			return command(cmd, args, s, where)
		}
	}
	cmd.AddCommand(createKeyCommand(&f, run), listKeysCommand(&f, run), revokeKeyCommand(&f, run))
	return cmd
}

// open is the store of the keys, and where it is, for people.
func (f keyFlags) open(ctx context.Context, getenv func(string) string) (access.Manager, string, error) {
	switch {
	case f.dynamodb != "":
		tmpl, err := template.Parse(sluice.Template)
		if err != nil {
			return nil, "", err
		}
		client, err := localDynamoDB(ctx, getenv, f.dynamodb)
		if err != nil {
			return nil, "", err
		}
		tmpl.Tables = slices.DeleteFunc(tmpl.Tables, func(t template.Table) bool { return t.LogicalID != keysTable })
		names, err := ensureTables(ctx, client, tmpl, func(name string) string {
			if name == "KEYS_TABLE" {
				return f.table
			}
			return getenv(name)
		})
		if err != nil {
			return nil, "", fmt.Errorf("use %s: %w", f.dynamodb, err)
		}
		s, err := accessdynamo.New(client, names[keysTable])
		return s, fmt.Sprintf("the table %s at %s", names[keysTable], f.dynamodb), err
	case f.table != "":
		sdk, err := config.LoadDefaultConfig(ctx)
		if err != nil {
			return nil, "", fmt.Errorf("load AWS configuration: %w", err)
		}
		if sdk.Region == "" {
			return nil, "", errors.New("no AWS region is set; set AWS_REGION to that of the table, or AWS_PROFILE to a profile that has one")
		}
		s, err := accessdynamo.New(dynamodb.NewFromConfig(sdk), f.table)
		return s, fmt.Sprintf("the table %s in %s", f.table, sdk.Region), err
	}
	path := keysFile(f.dataDir)
	s, err := accessbolt.New(path)
	return s, path, err
}

// keysFile is where a data directory has its keys.
func keysFile(dataDir string) string { return filepath.Join(dataDir, "keys.db") }

// runner makes what a command runs of what it does with the store.
type runner func(func(cmd *cobra.Command, args []string, s access.Manager, where string) error) func(*cobra.Command, []string) error

func createKeyCommand(f *keyFlags, run runner) *cobra.Command {
	var name, workspace, expiresIn string
	var scopes []string
	cmd := &cobra.Command{
		Use:   "create --scope SCOPE [--scope SCOPE] [--workspace NAME] [--name TEXT] [--expires-in TIME]",
		Short: "Create a key and print it, this once",
		Long: `Create a key and print it, this once: nothing can show it again. The key alone
goes to standard output, what there is to say about it to standard error.

Scopes: import puts records in, export gets records out, dashboard runs large
exports and shows usage. A key reaches the records of its workspace alone; a
workspace is there as soon as a key names it.`,
		Example: `  sluice keys create --scope import --scope export
  KEY=$(sluice keys create --scope export --workspace acme --name "nightly report" --expires-in 90d)
  sluice keys create --table sluice-KeysTable-1ABCDEF --scope dashboard --json`,
		Args: cobra.NoArgs,
		RunE: run(func(cmd *cobra.Command, _ []string, s access.Manager, where string) error {
			now := time.Now()
			k := access.Key{Name: name, Workspace: workspace}
			for _, scope := range scopes {
				k.Scopes = append(k.Scopes, access.Scope(scope))
			}
			if expiresIn != "" {
				lifetime, err := parseLifetime(expiresIn)
				if err != nil {
					return usageError("%w", err)
				}
				k.ExpiresAt = now.Add(lifetime)
			}
			k, token, err := access.New(k, now)
			if err != nil {
				return usageError("%w", err)
			}
			if f.table == "" && f.dynamodb == "" {
				if err := os.MkdirAll(f.dataDir, 0o700); err != nil {
					return fmt.Errorf("make the data directory: %w", err)
				}
			}
			if err := s.Create(cmd.Context(), k); err != nil {
				return fmt.Errorf("the key was not created in %s: %w", where, err)
			}
			if f.json {
				shown := describe(k, now)
				shown.Key = token.Reveal()
				return printJSON(cmd.OutOrStdout(), shown)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), `The key %s is in %s: %s in the workspace %s, %s.
Send it as "Authorization: Bearer ...". It is shown this once:

`, k.ID, where, scopeList(k), k.Workspace, expiry(k))
			fmt.Fprintln(cmd.OutOrStdout(), token.Reveal())
			return nil
		}),
	}
	cmd.Flags().StringSliceVar(&scopes, "scope", nil, "what the key may do: import, export or dashboard; repeat it for more")
	cmd.Flags().StringVar(&workspace, "workspace", access.DefaultWorkspace, "whose records the key reaches")
	cmd.Flags().StringVar(&name, "name", "", "what the key is for, for people")
	cmd.Flags().StringVar(&expiresIn, "expires-in", "", "how long the key is good, such as 12h or 90d; without it, until it is revoked")
	return cmd
}

func listKeysCommand(f *keyFlags, run runner) *cobra.Command {
	var workspace string
	cmd := &cobra.Command{
		Use:   "list [--workspace NAME]",
		Short: "List the keys, oldest first, those that were revoked too",
		Example: `  sluice keys list
  sluice keys list --workspace acme --json`,
		Args: cobra.NoArgs,
		RunE: run(func(cmd *cobra.Command, _ []string, s access.Manager, where string) error {
			keys, err := s.List(cmd.Context())
			if err != nil {
				return fmt.Errorf("the keys in %s cannot be read: %w", where, err)
			}
			now := time.Now()
			shown := []keyJSON{}
			for _, k := range keys {
				if workspace == "" || k.Workspace == workspace {
					shown = append(shown, describe(k, now))
				}
			}
			switch {
			case f.json:
				return printJSON(cmd.OutOrStdout(), shown)
			case len(shown) == 0:
				fmt.Fprintf(cmd.ErrOrStderr(), "There are no keys in %s.\n", where)
				return nil
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tSTATUS\tWORKSPACE\tSCOPES\tCREATED\tEXPIRES\tNAME")
			for _, k := range shown {
				expires := "never"
				if k.ExpiresAt != nil {
					expires = k.ExpiresAt.Format(time.RFC3339)
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, k.Status, k.Workspace, joinScopes(k.Scopes, ","), k.CreatedAt.Format(time.RFC3339), expires, k.Name)
			}
			return w.Flush()
		}),
	}
	cmd.Flags().StringVar(&workspace, "workspace", "", "only keys of this workspace")
	return cmd
}

func revokeKeyCommand(f *keyFlags, run runner) *cobra.Command {
	return &cobra.Command{
		Use:     "revoke ID",
		Short:   "Revoke a key for good",
		Example: `  sluice keys revoke 7m3kq2xw9abc`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("give the id of one key, as \"sluice keys list\" shows it")
			}
			return nil
		},
		RunE: run(func(cmd *cobra.Command, args []string, s access.Manager, where string) error {
			id := args[0]
			if token, ok := access.ParseToken(id); ok {
				id = token.ID // the whole key will do
			} else if strings.Contains(id, "_") {
				return usageError("that is not the id of a key; \"sluice keys list\" shows them")
			}
			now := time.Now()
			k, err := s.Revoke(cmd.Context(), id, now)
			if errors.Is(err, access.ErrNotFound) {
				return fmt.Errorf("there is no key %q in %s; \"sluice keys list\" shows them", id, where)
			}
			if err != nil {
				return fmt.Errorf("the key %s in %s may not be revoked: %w", id, where, err)
			}
			if f.json {
				return printJSON(cmd.OutOrStdout(), describe(k, now))
			}
			fmt.Fprintf(cmd.OutOrStdout(), "The key %s was revoked at %s. Within %d seconds of that it opens nothing.\n", k.ID, k.RevokedAt.Format(time.RFC3339), access.MaxAge/time.Second)
			return nil
		}),
	}
}

// parseLifetime reads a duration such as 90d or what time.ParseDuration reads.
func parseLifetime(text string) (time.Duration, error) {
	const day, most = 24 * time.Hour, 36500
	var lifetime time.Duration
	if number, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(number, 10, 32); err == nil && n <= most {
			lifetime = time.Duration(n) * day
		}
	} else {
		lifetime, _ = time.ParseDuration(text)
	}
	if lifetime <= 0 || lifetime > most*day {
		return 0, fmt.Errorf("--expires-in %q must be a time such as 30m, 12h or 90d, and not more than %dd", text, most)
	}
	return lifetime, nil
}

// keyJSON is a key as the commands print it.
type keyJSON struct {
	ID        string         `json:"id"`
	Key       string         `json:"key,omitzero"` // the whole text, of a new key only
	Name      string         `json:"name"`
	Workspace string         `json:"workspace"`
	Scopes    []access.Scope `json:"scopes"`
	Status    access.Status  `json:"status"`
	CreatedAt time.Time      `json:"created_at"`
	ExpiresAt *time.Time     `json:"expires_at"` // null: never
	RevokedAt *time.Time     `json:"revoked_at"` // null: it is not
}

func describe(k access.Key, now time.Time) keyJSON {
	shown := keyJSON{ID: k.ID, Name: k.Name, Workspace: k.Workspace, Scopes: k.Scopes, Status: k.Status(now), CreatedAt: k.CreatedAt}
	if !k.ExpiresAt.IsZero() {
		shown.ExpiresAt = &k.ExpiresAt
	}
	if !k.RevokedAt.IsZero() {
		shown.RevokedAt = &k.RevokedAt
	}
	return shown
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func scopeList(k access.Key) string { return joinScopes(k.Scopes, " and ") }

func joinScopes(scopes []access.Scope, separator string) string {
	names := make([]string, len(scopes))
	for i, s := range scopes {
		names[i] = string(s)
	}
	return strings.Join(names, separator)
}

func expiry(k access.Key) string {
	if k.ExpiresAt.IsZero() {
		return "until it is revoked"
	}
	return "until " + k.ExpiresAt.Format(time.RFC3339)
}
