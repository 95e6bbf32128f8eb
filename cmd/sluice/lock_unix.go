//go:build unix

package main

import (
	"os"
	"syscall"
)

// lock takes a file for this process alone, until unlock or the process's end.
func lock(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// unlock ends lock. Closing the file would not do while a process is being
// started, which has it open, too, until it runs its own program.
func unlock(file *os.File) error { return syscall.Flock(int(file.Fd()), syscall.LOCK_UN) }
