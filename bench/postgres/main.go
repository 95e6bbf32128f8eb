// Command postgres is a thin API over PostgreSQL: each request is one statement, and there are no
// limits, keys, revisions or tombstones. It starts a PostgreSQL of its own, with the durability of
// Sluice: fsync and synchronous_commit are on. It prints its address. Its argument is the data
// directory.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const schema = `
CREATE TABLE IF NOT EXISTS entity (
	id text COLLATE "C" PRIMARY KEY,
	type text COLLATE "C" NOT NULL,
	attributes jsonb NOT NULL,
	created_at timestamptz(3) NOT NULL DEFAULT clock_timestamp(),
	updated_at timestamptz(3) NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX IF NOT EXISTS by_type ON entity (type, id);
CREATE INDEX IF NOT EXISTS by_updated_at ON entity (updated_at, id);
CREATE INDEX IF NOT EXISTS by_email ON entity (type, (attributes->>'email'), id);`

func init() { runtime.LockOSThread() } // PostgreSQL gets a signal when the thread that started it ends

func main() {
	if err := run(context.Background(), os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, dir string) error {
	server, err := startPostgreSQL(dir)
	if err != nil {
		return err
	}
	// As many connections as the benchmark has: with 16, 64 concurrent creates are slower.
	config, err := pgxpool.ParseConfig("host=" + dir + " user=postgres dbname=postgres pool_max_conns=64 pool_min_conns=64")
	if err != nil {
		return err
	}
	pool, err := connect(ctx, config)
	if err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, schema); err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	go func() {
		<-stop
		pool.Exec(ctx, "VACUUM ANALYZE entity") //nolint:errcheck // queries need statistics, or the first rows would be slow
		server.Process.Signal(syscall.SIGINT)   //nolint:errcheck // it may have ended
		server.Wait()                           //nolint:errcheck // it may have failed
		os.Exit(0)
	}()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("PostgreSQL listens on http://%s\n", listener.Addr())
	return http.Serve(listener, api{pool}.routes())
}

// startPostgreSQL returns before the server accepts connections. Like initdb, PostgreSQL refuses to
// run as root. It ends when this process does.
func startPostgreSQL(dir string) (*exec.Cmd, error) {
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if os.Getuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			return nil, err
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := cmp.Or(err1, err2); err != nil {
			return nil, err
		}
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			return cmp.Or(err, os.Chown(path, int(uid), int(gid)))
		}); err != nil {
			return nil, err
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, err
	}
	run := func(program string, args ...string) *exec.Cmd {
		cmd := exec.Command(binary(program), args...)
		cmd.Dir, cmd.SysProcAttr, cmd.Stderr = dir, attr, os.Stderr
		return cmd
	}
	if _, err := os.Stat(filepath.Join(dir, "PG_VERSION")); err != nil {
		if err := run("initdb", "-D", dir, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale", "C").Run(); err != nil {
			return nil, err
		}
	}
	os.Remove(filepath.Join(dir, "postmaster.pid")) //nolint:errcheck // there is none unless the last process was killed
	server := run("postgres", "-D", dir, "-k", dir, "-c", "listen_addresses=", "-c", "shared_buffers=1GB", "-c", "max_wal_size=4GB",
		"-c", "fsync=on", "-c", "synchronous_commit=on", "-c", "log_min_messages=fatal")
	return server, server.Start()
}

// binary returns the path of a program of PostgreSQL, which Debian does not link into the PATH.
func binary(name string) string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name) // the pattern is valid
	if len(found) == 0 {
		return name
	}
	return slices.Max(found)
}

func connect(ctx context.Context, config *pgxpool.Config) (*pgxpool.Pool, error) {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		pool, err := pgxpool.NewWithConfig(ctx, config)
		if err == nil {
			err = pool.Ping(ctx)
		}
		if err == nil || time.Now().After(deadline) {
			return pool, err
		}
		pool.Close()
	}
}
