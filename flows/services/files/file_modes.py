"""Who may read and write the files of a process: what the umask leaves, and never every user."""

import os
import stat


def deny_world_writing() -> None:
    """From now on no file or folder that this process makes can be written by all users; other modes stay."""
    # The umask can only be read by setting it.
    os.umask(os.umask(0o077) | stat.S_IWOTH)
