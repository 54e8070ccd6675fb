package faults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"
)

const (
	imageSize   = 512 << 20
	backingSize = "640m"
)

// ioctls of the kernel on a mounted file system.
const (
	ioctlFreeze   = 0xc0045877 // FIFREEZE
	ioctlThaw     = 0xc0045878 // FITHAW
	ioctlShutdown = 0x8004587d // FS_IOC_SHUTDOWN
)

// How a file system is shut down: every access gives EIO from then on.
const (
	shutdownLogFlush   = 1 // what was written to it reaches the disk before
	shutdownNoLogFlush = 2 // as when the power goes: what was not flushed is gone
)

// ext4Volume is an ext4 file system on a loop device, in memory or on the
// machine's disk. The error says why there can be none here.
func ext4Volume(t testing.TB, memory bool) (*volume, error) {
	t.Helper()
	base := t.TempDir()
	v := &volume{dir: filepath.Join(base, "disk"), backing: filepath.Join(base, "backing"), has: ownDisk}
	for _, d := range []string{v.dir, v.backing} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return nil, err
		}
	}
	v.says = "ext4 on a loop device on this machine's disk"
	if memory {
		v.says, v.has = "ext4 on a loop device in memory", ownDisk|thinDisk
		if err := syscall.Mount("tmpfs", v.backing, "tmpfs", 0, "mode=0700,size="+backingSize); err != nil {
			return nil, fmt.Errorf("mount a file system in memory: %w", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(v.backing, syscall.MNT_DETACH) })
	}
	v.image = filepath.Join(v.backing, "image")
	if err := os.WriteFile(v.image, nil, 0o600); err != nil {
		return nil, err
	}
	if err := os.Truncate(v.image, imageSize); err != nil {
		return nil, err
	}
	if out, err := exec.Command("mkfs.ext4", "-q", v.image).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mkfs.ext4: %w: %s", err, out)
	}
	t.Cleanup(func() { _ = syscall.Unmount(v.dir, syscall.MNT_DETACH) })
	return v, v.mount()
}

func (v *volume) mount() error {
	if out, err := exec.Command("mount", "-o", "loop,errors=remount-ro", v.image, v.dir).CombinedOutput(); err != nil {
		return fmt.Errorf("mount: %w: %s", err, out)
	}
	return nil
}

// replug takes the file system away, with nothing running on it, and mounts it
// again: what its kernel side held in memory is gone, its journal is replayed.
func (v *volume) replug(t testing.TB) {
	t.Helper()
	// The last descriptors of a killed process may be closing still.
	eventually(t, "the file system can be unmounted", func() bool { return syscall.Unmount(v.dir, 0) == nil })
	if err := v.mount(); err != nil {
		t.Fatal(err)
	}
}

func (v *volume) ioctl(t testing.TB, request uintptr, arg uint32) {
	t.Helper()
	f, err := os.Open(v.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, uintptr(unsafe.Pointer(&arg))); errno != 0 {
		t.Fatalf("ioctl %x of the file system: %v", request, errno)
	}
}

func (v *volume) shutdown(t testing.TB, how uint32) { v.ioctl(t, ioctlShutdown, how) }
func (v *volume) freeze(t testing.TB)               { v.ioctl(t, ioctlFreeze, 0) }
func (v *volume) thaw(t testing.TB)                 { v.ioctl(t, ioctlThaw, 0) }
